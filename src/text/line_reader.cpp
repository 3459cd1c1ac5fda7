#include "text/line_reader.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/foreign_text.h"
#include "base/text.h"
#include "text/source_file.h"

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
    const std::string_view read(buffer_.get(), end_);
    const size_t end = read.find('\n', scanned);
    if (end != std::string_view::npos) {
      line = read.substr(begin_, end - begin_);
      begin_ = end + 1;
      return true;
    }
    const size_t pending = end_ - begin_;
    // Its last byte may be a '\r', which is no part of the line.
    if (pending > 0) require_size(pending - 1);
    if (!fill()) {
      line = {buffer_.get() + begin_, pending};
      begin_ = end_;
      return pending > 0;
    }
    scanned = begin_ + pending;
  }
}

void LineReader::require_size(size_t size) const {
  if (size <= max_line_) return;
  fail_large_document(str(shown(path_), ":", line_number_ + 1), "a line", max_line_);
}

// Moves what is pending to the front and reads on; false at the end of the file.
bool LineReader::fill() {
  constexpr size_t kChunk = size_t{1} << 20;
  const char* const pending = buffer_.get() + begin_;
  end_ -= begin_;
  begin_ = 0;
  if (size_ - end_ < kChunk) {
    size_ = std::max(2 * size_, kChunk);  // doubling keeps one enormous line linear
    auto larger = std::make_unique_for_overwrite<char[]>(size_);
    std::copy_n(pending, end_, larger.get());
    buffer_ = std::move(larger);
  } else {
    std::memmove(buffer_.get(), pending, end_);
  }
  const size_t got = bytes_->read(buffer_.get() + end_, size_ - end_);
  const bool is_first = bytes_read_ == 0;
  end_ += got;
  bytes_read_ += got;
  if (is_first) {
    if (const std::string other = foreign_text({buffer_.get(), got}); !other.empty())
      throw Error(ErrorKind::kData, str(shown(path_), ": is ", other));
  }
  return got > 0;
}

}  // namespace lmtrain
