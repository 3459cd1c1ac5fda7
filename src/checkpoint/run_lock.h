// The lock of a run folder lets one process at a time write there.
//
// It is taken twice, by flock on the folder itself and on the file .lock in it. A user may delete
// .lock while the run is trained, but not the folder without its run. The file serves where a file
// system cannot lock folders (NFS). The lock is released when the object is destroyed or the
// process dies.
#pragma once

#include <filesystem>
#include <memory>

#include "base/file.h"
#include "base/open_file.h"

namespace lmtrain {

class RunLock {
 public:
  // Takes the lock without waiting. Returns false when another process holds it. `folder` must
  // exist. Throws Error(kIo) when the system refuses.
  bool try_acquire(const std::filesystem::path& folder);

 private:
  std::unique_ptr<Descriptor> folder_;
  FileLock file_;
};

}  // namespace lmtrain
