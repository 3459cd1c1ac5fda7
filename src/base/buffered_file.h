// A BufferedFile is for many small writes, which wait in a buffer of 1 MiB, and for a file that
// another process may continue. sync() returns the size and checksum of the file on disk; with
// these a later process opens the file again, also after a crash. It is not thread-safe. Throws the
// errors of base/file.h.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/file.h"

namespace lmtrain {

class BufferedFile {
 public:
  // Creates the file, or empties the one that is there.
  explicit BufferedFile(const std::filesystem::path& path);
  // Continues a file for which sync() returned `kept`: keeps its first `kept.size` bytes and cuts
  // off the rest. Reads those bytes, and throws Error(kData) unless they have the checksum.
  BufferedFile(const std::filesystem::path& path, const FileSum& kept);

  void write(std::string_view bytes);
  // Hands the buffer to the operating system. The destructor does not: bytes still in the buffer
  // are lost.
  void flush();
  // Flushes and fsyncs. Returns size and checksum of all bytes written.
  FileSum sync();
  // Flushes, syncs and closes. No call may follow.
  void finish();

  // Returns the number of bytes kept and written, flushed or not.
  uint64_t size() const { return file_.size() + buffer_.size(); }
  // Returns the file below the buffer. The caller must call flush() before using it.
  FileWriter& file() { return file_; }

 private:
  FileWriter file_;
  std::string buffer_;
};

}  // namespace lmtrain
