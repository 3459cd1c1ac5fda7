// A ScratchFolder is an empty folder for temporary files of many gigabytes. It is removed with its
// owner. A killed owner leaves the folder, and the next ScratchFolder of that name empties it: a
// lock in the folder says whether the owner lives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"

namespace lmtrain {

class ScratchFolder {
 public:
  // Makes the folder `name` in the first of `parents` that can be written to and has `bytes` free.
  // Throws Error(kUsage) when another process has the folder, Error(kIo) with the reason for each
  // parent when no parent will do.
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
