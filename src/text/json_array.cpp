// open_json_array of readers.h: one JSON array of objects with the text in a field, or of strings.
// It is read element by element, so that memory holds one element.
#include <algorithm>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "text/json_line.h"
#include "text/readers.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

bool is_json_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

class JsonArrayReader : public DocumentReader {
 public:
  JsonArrayReader(const fs::path& path, const std::string& field, uint64_t max_document)
      : path_(path), max_document_(max_document), bytes_(open_bytes(path)), parser_(field) {}

  bool next(Document& document) override {
    while (next_element()) {
      if (element_ == "null") {
        ++skipped_.nulls;
        continue;
      }
      const JsonText result = element_.front() == '"' ? parse_string() : parser_.parse(element_);
      if (result.kind == JsonText::Kind::kProblem) fail_element(result.message());
      if (result.kind == JsonText::Kind::kNull) {
        ++skipped_.nulls;
        continue;
      }
      document = {result.text, position_++};
      return true;
    }
    return false;
  }
  uint64_t bytes_read() const override { return bytes_->file_offset(); }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kData, str(shown(path_), ":", line_, ": ", what));
  }
  // Columns in the message of the parser count from the beginning of the element.
  [[noreturn]] void fail_element(std::string problem) const {
    constexpr std::string_view kLine = "the line";
    for (size_t at = problem.find(kLine); at != std::string::npos; at = problem.find(kLine))
      problem.replace(at, kLine.size(), "it");
    throw Error(ErrorKind::kData,
                str(shown(path_), ":", element_line_, ": element ", num_elements_ - 1,
                    " of the array: ", problem.substr(0, problem.find("; every line"))));
  }

  // Reads the next element; returns false after the end of the array, where the file must end.
  bool next_element() {
    if (is_done_) return false;
    if (num_elements_ == 0) open();
    skip_blanks();
    const char c = peek("the array is not closed");
    if (c == ']') {
      take();
      skip_blanks();
      if (fill()) fail("more text after the end of the array");
      is_done_ = true;
      return false;
    }
    if (num_elements_ > 0) {
      if (c != ',') fail("a comma or ] is expected after an element of the array");
      take();
      skip_blanks();
    }
    element_line_ = line_;
    ++num_elements_;
    read_element();
    return true;
  }
  void open() {
    skip_blanks();
    if (peek("the file is empty") != '[') fail("the file does not begin with a JSON array");
    take();
  }

  // Finds the end of the element; the parser judges its content.
  void read_element() {
    element_.clear();
    size_t depth = 0;
    bool in_string = false;
    bool is_escaped = false;
    for (;;) {
      const char c = peek(in_string ? "a string is not closed" : "the array is not closed");
      if (in_string) {
        if (is_escaped) {
          is_escaped = false;
        } else if (c == '\\') {
          is_escaped = true;
        } else if (c == '"') {
          in_string = false;
        }
      } else if (c == '"') {
        in_string = true;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if (c == '}' || c == ']') {
        if (depth == 0) break;
        --depth;
      } else if (depth == 0 && (c == ',' || is_json_blank(c))) {
        break;
      }
      element_ += take();
      if (in_string && !is_escaped) take_plain();
      if (element_.size() > max_document_)
        fail_large_document(str(shown(path_), ":", element_line_), "an element", max_document_);
      if (depth == 0 && !in_string && (c == '"' || c == '}' || c == ']')) break;
    }
    if (element_.empty()) fail("an element of the array is expected");
  }
  // Takes the bytes of a string that neither end it nor escape, at once.
  void take_plain() {
    const std::string_view rest(buffer_.data() + begin_, end_ - begin_);
    const size_t size = std::min(rest.find_first_of("\"\\\n"), rest.size());
    element_.append(rest, 0, size);
    begin_ += size;
  }

  JsonText parse_string() {
    const auto problem = [](std::string what) {
      return JsonText{JsonText::Kind::kProblem, {}, std::move(what)};
    };
    if (valid_utf8_prefix(element_) < element_.size()) return problem("a byte that is not UTF-8");
    const std::string none;
    const std::vector<std::string> path = {none};
    JsonScanner scanner(element_, none, path);
    try {
      scanner.scan();
    } catch (const JsonSyntaxError& error) {
      return problem(str("not JSON at column ", error.offset + 1, ": ", error.what));
    }
    text_.clear();
    append_unescaped(std::string_view(element_).substr(1, element_.size() - 2), text_);
    return {JsonText::Kind::kText, text_};
  }

  void skip_blanks() {
    while (fill() && is_json_blank(buffer_[begin_])) take();
  }
  char peek(const char* problem_at_end) {
    if (!fill())
      fail(str(problem_at_end, " at the end of the file, byte ", position_in_text_,
               "; the file is cut short: get it anew"));
    return buffer_[begin_];
  }
  char take() {
    const char c = buffer_[begin_++];
    if (c == '\n') ++line_;
    return c;
  }
  // Whether there is another byte.
  bool fill() {
    if (begin_ < end_) return true;
    std::tie(begin_, end_) =
        position_in_text_ > 0 ? std::pair(size_t{0}, bytes_->read(buffer_.data(), buffer_.size()))
                              : read_first_text(*bytes_, buffer_, path_);
    position_in_text_ += end_;
    return begin_ < end_;
  }

  fs::path path_;
  uint64_t max_document_;
  std::unique_ptr<ByteStream> bytes_;
  JsonLineParser parser_;
  std::string buffer_ = std::string(size_t{1} << 18, '\0');
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t position_in_text_ = 0;  // of the end of the buffer
  std::string element_;
  std::string text_;
  bool is_done_ = false;
  int64_t num_elements_ = 0;
  int64_t line_ = 1;
  int64_t element_line_ = 1;
  int64_t position_ = 0;
};

}  // namespace

std::unique_ptr<DocumentReader> open_json_array(const fs::path& path, const std::string& field,
                                                uint64_t max_document) {
  return std::make_unique<JsonArrayReader>(path, field, max_document);
}

}  // namespace lmtrain
