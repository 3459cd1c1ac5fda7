#include "corpus/readers/line_reader.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "corpus/readers/source_file.h"

namespace lmtrain {

LineReader::LineReader(const std::filesystem::path& path, uint64_t max_line)
    : path_(path), max_line_(max_line), bytes_(open_bytes(path)) {}

bool LineReader::next(std::string_view& line) {
  if (!find_line(line)) return false;
  if (line.ends_with('\r')) line.remove_suffix(1);
  require_size(line.size());
  ++line_number_;
  return true;
}

bool LineReader::find_line(std::string_view& line) {
  size_t scanned = begin_;
  for (;;) {
    const void* newline = std::memchr(buffer_.data() + scanned, '\n', end_ - scanned);
    if (newline != nullptr) {
      const auto end = static_cast<size_t>(static_cast<const char*>(newline) - buffer_.data());
      line = std::string_view(buffer_).substr(begin_, end - begin_);
      begin_ = end + 1;
      return true;
    }
    const size_t pending = end_ - begin_;
    // Its last byte may be a '\r', which is no part of the line.
    if (pending > 0) require_size(pending - 1);
    if (!fill()) {
      line = std::string_view(buffer_).substr(begin_, pending);
      begin_ = end_;
      return pending > 0;
    }
    scanned = begin_ + pending;
  }
}

void LineReader::require_size(size_t size) const {
  if (size <= max_line_) return;
  fail_large_document(str(path_.string(), ":", line_number_ + 1), "a line", max_line_);
}

// Moves what is pending to the front and reads on; false at the end of the file.
bool LineReader::fill() {
  constexpr size_t kChunk = size_t{1} << 20;
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  // Doubling keeps one enormous line linear.
  if (buffer_.size() - end_ < kChunk) buffer_.resize(std::max(2 * buffer_.size(), kChunk));
  const size_t got = bytes_->read(buffer_.data() + end_, buffer_.size() - end_);
  end_ += got;
  return got > 0;
}

}  // namespace lmtrain
