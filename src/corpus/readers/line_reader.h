// Lines of a file of any size, compressed or not, without "\n" or "\r\n". Holds one line and a
// buffer. Errors of byte_stream.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "corpus/readers/byte_stream.h"

namespace lmtrain {

class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path);

  // Stores the next line in `line`, also a last one without a newline; false at the end. The view
  // is valid until the next call.
  bool next(std::string_view& line);
  // From 1, of the line last given.
  int64_t line_number() const { return line_number_; }
  // As ByteStream::file_offset.
  uint64_t file_offset() const { return bytes_->file_offset(); }

 private:
  bool find_line(std::string_view& line);
  bool fill();

  std::unique_ptr<ByteStream> bytes_;
  std::string buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  int64_t line_number_ = 0;
};

}  // namespace lmtrain
