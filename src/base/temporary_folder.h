// A TemporaryFolder creates a folder in TMPDIR, else in /tmp, and removes it with all its files
// when it is destroyed. The constructor throws Error(kIo) when the folder cannot be created, for
// example because TMPDIR names no folder.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {

// Returns TMPDIR, else /tmp.
inline std::filesystem::path temporary_parent() {
  const char* const chosen = std::getenv("TMPDIR");
  return chosen == nullptr || *chosen == '\0' ? "/tmp" : std::filesystem::path(chosen);
}

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

}  // namespace lmtrain
