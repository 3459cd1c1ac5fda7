// Reading regular files, and never more of them than they may hold. read_file(path) of file.h is
// for small files that describe something, a config, a state, a list of tensors: at most
// kMostOfSmallFile bytes.
//
// A pipe, socket, device or folder in place of a file is Error(kData) naming it; nothing here waits
// for the other end of a pipe unless that is said. A refusal that may pass (retry.h) is tried
// again, any other is Error(kIo).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/files/file.h"

namespace lmtrain {

// A regular file, read from its beginning.
class FileReader {
 public:
  explicit FileReader(const std::filesystem::path& path);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  // Reads up to `size` bytes to `out` and returns how many they are; 0 at the end.
  size_t read(char* out, size_t size);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

inline constexpr uint64_t kMostOfSmallFile = uint64_t{64} << 20;
// Error(kData) naming file and figure when it holds more than `most` bytes.
std::string read_file(const std::filesystem::path& path, uint64_t most);
// The same for a path that a person typed: a pipe or /dev/stdin will do, and is waited for until a
// signal asks to stop (StopRequested).
std::string read_file_or_pipe(const std::filesystem::path& path, uint64_t most);

}  // namespace lmtrain
