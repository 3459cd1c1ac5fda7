// open_csv of readers.h: tables as text, RFC 4180, read row by row by a machine of four states.
//
// A field that begins with a quote ends with the next quote that is not doubled, and may hold
// separators and newlines, which stay as they are. A quote inside of any other field is a
// character. A row ends with "\n", "\r\n" or "\r", as in Python's csv.
#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "text/readers.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

class CsvReader : public DocumentReader {
 public:
  CsvReader(const fs::path& path, const std::string& column, char separator, uint64_t max_document)
      : path_(path),
        column_name_(column),
        separator_(separator),
        max_document_(max_document),
        bytes_(open_bytes(path)) {}

  // Reads the line that names the columns; call it instead of next(). Returns none where it is
  // damaged.
  std::vector<std::string> read_columns() {
    is_header_ = true;
    try {
      read_row();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData) throw;
      names_.clear();
    }
    return names_;
  }

  bool next(Document& document) override {
    if (!has_header_ && !read_header()) return false;
    if (!read_row()) return false;
    if (num_fields_ != num_columns_) {
      fail(row_line_,
           str("the row has ", counted(static_cast<int64_t>(num_fields_), "field"),
               ", and the first line names ", counted(static_cast<int64_t>(num_columns_), "column"),
               "; a field that holds the separator, a quote or a newline must be in "
               "quotes: correct the row or write the table anew"));
    }
    document = {text_, position_++};
    return true;
  }
  uint64_t bytes_read() const override { return bytes_->file_offset(); }

 private:
  static constexpr size_t kBufferBytes = size_t{1} << 18;

  [[noreturn]] void fail(int64_t line, const std::string& what) const {
    throw Error(ErrorKind::kData, str(shown(path_), ":", line, ": ", what));
  }

  // Finds the column. False for a file without a line.
  bool read_header() {
    is_header_ = true;
    if (!read_row()) return false;
    is_header_ = false;
    has_header_ = true;
    num_columns_ = names_.size();
    const auto number = std::count(names_.begin(), names_.end(), column_name_);
    column_ =
        static_cast<size_t>(std::find(names_.begin(), names_.end(), column_name_) - names_.begin());
    if (number == 1) return true;
    if (number > 1) {
      fail(row_line_, str("names two columns ", quote(column_name_),
                          ", and data.text_field may mean either; rename one of them"));
    }
    constexpr size_t kMostNames = 50;
    const std::string nearest = nearest_word(column_name_, names_);
    fail(row_line_,
         str("no column ", quote(column_name_), " (data.text_field); ",
             nearest.empty() ? std::string() : str("did you mean ", quote(nearest), "? "),
             "the first line has: ", quoted_list(names_, kMostNames),
             "; a table begins with a line that names its columns"));
  }

  // Reads the fields of the next row that is no blank line; returns false at the end of the file.
  bool read_row() {
    for (;;) {
      num_fields_ = 0;
      text_.clear();
      names_.resize(is_header_ ? 0 : names_.size());
      row_line_ = line_;
      if (peek() == kEnd) return false;
      is_blank_ = true;
      while (read_field()) {
      }
      if (!is_blank_) return true;
      ++skipped_.blank_lines;
    }
  }

  // Reads a field and the separator after it; returns false after the last field of the row.
  bool read_field() {
    std::string* const out = wanted_field();
    if (peek() == '"') {
      read_quoted(out);
    } else {
      read_plain(out);
    }
    ++num_fields_;
    const int end = peek();
    if (end == separator_) {
      take();
      is_blank_ = false;
      return true;
    }
    end_row(end);
    return false;
  }
  // Returns where the field goes; null: nowhere.
  std::string* wanted_field() {
    constexpr size_t kMostColumns = size_t{1} << 16;
    if (is_header_ && names_.size() == kMostColumns)
      fail(row_line_, str("names more than ", kMostColumns, " columns"));
    if (is_header_) return &names_.emplace_back();
    return num_fields_ == column_ ? &text_ : nullptr;
  }
  void end_row(int end) {
    if (end == kEnd) return;
    take();
    if (end == '\r' && peek() == '\n') take();
    ++line_;
  }

  void read_plain(std::string* out) {
    for (;;) {
      if (peek() == kEnd) return;
      const char* const begin = buffer_.data() + begin_;
      const char* const end = buffer_.data() + end_;
      const char* const stop = std::find_if(
          begin, end, [this](char c) { return c == separator_ || c == '\n' || c == '\r'; });
      if (stop != begin) is_blank_ = false;
      append(out, begin, stop);
      if (stop != end) return;
    }
  }
  void read_quoted(std::string* out) {
    const int64_t first_line = line_;
    is_blank_ = false;
    take();
    for (;;) {
      if (peek() == kEnd) {
        fail(first_line,
             "a quote that begins a field here is not closed by the end of the file; the file is "
             "cut short, or a field with a quote at its beginning is not in quotes, and its quotes "
             "not doubled");
      }
      const char* const begin = buffer_.data() + begin_;
      const char* const end = buffer_.data() + end_;
      const char* const stop = std::find(begin, end, '"');
      count_lines(begin, stop);
      append(out, begin, stop);
      if (stop == end) continue;
      take();
      if (peek() != '"') break;
      append(out, buffer_.data() + begin_, buffer_.data() + begin_ + 1);
    }
    const int next = peek();
    if (next == separator_ || next == '\n' || next == '\r' || next == kEnd) return;
    fail(line_, str("text behind the quote that ends a field (which begins in line ", first_line,
                    "); a quote inside of a field in quotes must be doubled"));
  }
  // Lines inside of quotes: "\r\n" is one.
  void count_lines(const char* begin, const char* end) {
    for (const char* c = begin; c != end; ++c) {
      if (*c == '\r' || (*c == '\n' && last_ != '\r')) ++line_;
      last_ = *c;
    }
  }

  void append(std::string* out, const char* begin, const char* end) {
    begin_ += static_cast<size_t>(end - begin);
    if (out == nullptr) return;
    out->append(begin, end);
    if (out->size() > max_document_)
      fail_large_document(str(shown(path_), ":", row_line_), "a field", max_document_);
  }

  static constexpr int kEnd = -1;
  // Returns the next byte, or kEnd.
  int peek() {
    if (begin_ == end_ && !fill()) return kEnd;
    return static_cast<unsigned char>(buffer_[begin_]);
  }
  void take() { last_ = buffer_[begin_++]; }
  bool fill() {
    std::tie(begin_, end_) =
        has_begun_ ? std::pair(size_t{0}, bytes_->read(buffer_.data(), buffer_.size()))
                   : read_first_text(*bytes_, buffer_, path_);
    has_begun_ = true;
    return begin_ < end_;
  }

  fs::path path_;
  std::string column_name_;
  char separator_;
  uint64_t max_document_;
  std::unique_ptr<ByteStream> bytes_;
  std::string buffer_ = std::string(kBufferBytes, '\0');
  size_t begin_ = 0;
  size_t end_ = 0;
  char last_ = '\0';        // the byte before the next
  bool has_begun_ = false;  // bytes were read
  bool is_header_ = false;
  bool has_header_ = false;
  std::vector<std::string> names_;
  size_t num_columns_ = 0;
  size_t column_ = 0;
  std::string text_;
  size_t num_fields_ = 0;  // of the row, so far
  bool is_blank_ = false;  // the row has no byte so far
  int64_t line_ = 1;
  int64_t row_line_ = 1;  // in which the row begins
  int64_t position_ = 0;
};

}  // namespace

std::unique_ptr<DocumentReader> open_csv(const fs::path& path, const std::string& column,
                                         char separator, uint64_t max_document) {
  return std::make_unique<CsvReader>(path, column, separator, max_document);
}

std::vector<std::string> csv_columns(const fs::path& path, char separator) {
  constexpr uint64_t kLongestName = uint64_t{1} << 16;
  return CsvReader(path, {}, separator, kLongestName).read_columns();
}

}  // namespace lmtrain
