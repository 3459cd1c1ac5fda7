// The lock of a run folder: one process at a time writes there.
//
// It is held twice, by flock on the folder itself and on the file .lock in it. The folder cannot be
// deleted and leave the run in place, as .lock can. The file serves where a file system locks no
// folders (NFS), and keeps out earlier versions, which know .lock alone. Released on destruction or
// death of the process.
#pragma once

#include <filesystem>
#include <memory>

#include "base/files/file.h"
#include "base/files/open_file.h"

namespace lmtrain {

class RunLock {
 public:
  // False when another process holds the lock of `folder`, which must be there. Error(kIo) when the
  // system refuses.
  bool try_acquire(const std::filesystem::path& folder);

 private:
  std::unique_ptr<Descriptor> folder_;
  FileLock file_;
};

}  // namespace lmtrain
