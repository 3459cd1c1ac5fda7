// These functions read regular files, with a limit on their size. read_file(path) of file.h is for
// small files of at most kMostOfSmallFile bytes, such as a config, a state or a list of tensors.
//
// All but read_file_or_pipe throw Error(kData) that names the path for a pipe, socket, device or
// folder; they never wait for the other end of a pipe. A refusal that may pass (Retry of
// open_file.h) is tried again; any other is Error(kIo).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/file.h"

namespace lmtrain {

// Reads a regular file from its beginning.
class FileReader {
 public:
  explicit FileReader(const std::filesystem::path& path);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  // Reads up to `size` bytes to `out`. Returns how many it has read, 0 at the end.
  size_t read(char* out, size_t size);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

// Calls reader.read(out, size) until `size` bytes are read or the end is reached: one call may give
// less than it is asked for. Returns how many bytes were read.
template <class Reader>
size_t read_fully(Reader& reader, char* out, size_t size) {
  size_t filled = 0;
  while (filled < size) {
    const size_t count = reader.read(out + filled, size - filled);
    if (count == 0) break;
    filled += count;
  }
  return filled;
}

// Returns whether the file begins with these bytes.
bool file_begins_with(const std::filesystem::path& path, std::string_view bytes);

inline constexpr uint64_t kMostOfSmallFile = uint64_t{64} << 20;
// Returns all bytes of the file. Throws Error(kData) that names file and limit when the file holds
// more than `most` bytes.
std::string read_file(const std::filesystem::path& path, uint64_t most);
// Does the same for a path that a person typed, which may also be a pipe or /dev/stdin. It waits
// for a pipe until a signal asks to stop (throws StopRequested). A folder is Error(kIo).
std::string read_file_or_pipe(const std::filesystem::path& path, uint64_t most);

}  // namespace lmtrain
