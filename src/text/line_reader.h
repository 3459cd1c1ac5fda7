// A LineReader gives the lines of a file of any size, compressed or not, without "\n" or "\r\n". It
// holds one line and a buffer. It throws the errors of byte_stream.h, and Error(kData) naming file
// and line for a line of more than `max_line` bytes, which is not read further.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "text/byte_stream.h"

namespace lmtrain {

class LineReader {
 public:
  LineReader(const std::filesystem::path& path, uint64_t max_line);

  // Stores the next line in `line`; returns false at the end. The view is valid until the next
  // call.
  bool next(std::string_view& line);
  // Returns the number, from 1, of the line that next() gave last.
  int64_t line_number() const { return line_number_; }
  // Returns ByteStream::file_offset(), which is ahead of the lines by the buffer.
  uint64_t file_offset() const { return bytes_->file_offset(); }

 private:
  bool find_line(std::string_view& line);
  bool fill();
  void require_size(size_t size) const;

  std::filesystem::path path_;
  uint64_t max_line_;
  std::unique_ptr<ByteStream> bytes_;
  std::unique_ptr<char[]> buffer_;  // not set to zero, so that a short file touches few pages
  size_t size_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t bytes_read_ = 0;
  int64_t line_number_ = 0;
};

}  // namespace lmtrain
