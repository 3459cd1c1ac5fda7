// Folders for temporary files, which their owner's destructor removes.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace lmtrain {

// Returns TMPDIR, else /tmp.
inline std::filesystem::path temporary_parent() {
  const char* const chosen = std::getenv("TMPDIR");
  return chosen == nullptr || *chosen == '\0' ? "/tmp" : std::filesystem::path(chosen);
}

// A TemporaryFolder creates a folder in TMPDIR, else in /tmp, and removes it with all its files
// when it is destroyed. The constructor throws Error(kIo) when the folder cannot be created, for
// example because TMPDIR names no folder.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const std::filesystem::path parent = temporary_parent();
    std::string name = (parent / "lmtrain-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw Error(ErrorKind::kIo,
                  str("cannot create a folder in ", parent.string(), ": ", std::strerror(errno),
                      "; free some space there, or set TMPDIR to another folder"));
    }
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// A ScratchFolder is an empty folder for temporary files of many gigabytes. Its destructor removes
// it. A killed process leaves the folder, and the next ScratchFolder at that path empties it: a
// lock in the folder says whether a process still uses it.
class ScratchFolder {
 public:
  // Makes the folder `name` in the first of `parents` that can be written to and has `bytes` free.
  // Throws Error(kUsage) when another process uses that folder, and Error(kIo) with a reason for
  // each parent when no parent will do.
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
