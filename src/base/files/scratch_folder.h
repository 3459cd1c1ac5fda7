// A ScratchFolder is an empty folder for files of many gigabytes that are needed for a while. It is
// removed with its owner. Where the owner was killed, the next one of that name empties it: the
// name is fixed, and a lock in the folder says whether its owner lives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files/file.h"

namespace lmtrain {

class ScratchFolder {
 public:
  // Makes the folder `name` in the first of `parents` that can be written to and has `bytes` free.
  // Throws Error(kUsage) when another process has it; Error(kIo), with the reason of each parent,
  // when none will do.
  ScratchFolder(const std::vector<std::filesystem::path>& parents, const std::string& name,
                uint64_t bytes);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  void begin_at(const std::filesystem::path& path, uint64_t bytes);

  std::filesystem::path path_;
  FileLock lock_;
};

}  // namespace lmtrain
