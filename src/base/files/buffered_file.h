// A FileWriter for many small writes, which another process can continue: sync() returns the size
// and checksum of what is on disk, and a later process, also after a crash, opens the file again
// with them. Writes wait in a buffer of 1 MiB. Not thread-safe. Errors as in base/files/file.h.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/files/file.h"

namespace lmtrain {

class BufferedFile {
 public:
  // Creates the file, or empties the one that is there.
  explicit BufferedFile(const std::filesystem::path& path);
  // Keeps the first `kept.size` bytes, which sync() returned, and cuts off the rest. Reads those
  // bytes: Error(kData) unless they have the checksum.
  BufferedFile(const std::filesystem::path& path, const FileSum& kept);

  void write(std::string_view bytes);
  // Hands the buffer to the operating system. The destructor does not: what is not flushed is lost.
  void flush();
  // Flushes and fsyncs. Returns size and checksum of all bytes written.
  FileSum sync();
  // Flushes, syncs and closes. No call may follow.
  void finish();

  // Bytes written, flushed or not.
  uint64_t size() const { return file_.size() + buffer_.size(); }
  // The file below the buffer. The caller calls flush() before using it.
  FileWriter& file() { return file_; }

 private:
  FileWriter file_;
  std::string buffer_;
};

}  // namespace lmtrain
