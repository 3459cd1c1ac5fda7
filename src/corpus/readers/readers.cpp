// Readers of what is text already, and the choice among all readers.
#include "corpus/readers/readers.h"

#include "base/error.h"
#include "base/text.h"
#include "corpus/readers/byte_stream.h"
#include "corpus/readers/json_line.h"
#include "corpus/readers/line_reader.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

class TextReader : public DocumentReader {
 public:
  explicit TextReader(const fs::path& path) : bytes_(open_bytes(path)) {}

  bool next(Document& document) override {
    if (done_) return false;
    done_ = true;
    size_t size = 0;
    for (;;) {
      constexpr size_t kChunk = size_t{1} << 16;
      if (text_.size() - size < kChunk) text_.resize(std::max(2 * text_.size(), kChunk));
      const size_t got = bytes_->read(text_.data() + size, text_.size() - size);
      if (got == 0) break;
      size += got;
    }
    document = {std::string_view(text_).substr(0, size), 0};
    return true;
  }
  uint64_t bytes_read() const override { return bytes_->file_offset(); }

 private:
  std::unique_ptr<ByteStream> bytes_;
  std::string text_;
  bool done_ = false;
};

class LinesReader : public DocumentReader {
 public:
  explicit LinesReader(const fs::path& path) : lines_(path) {}

  bool next(Document& document) override {
    while (lines_.next(document.text)) {
      if (!document.text.empty()) {
        document.position = position_++;
        return true;
      }
      ++skipped_.blank_lines;
    }
    return false;
  }
  uint64_t bytes_read() const override { return lines_.file_offset(); }

 private:
  LineReader lines_;
  int64_t position_ = 0;
};

class JsonLinesReader : public DocumentReader {
 public:
  JsonLinesReader(const fs::path& path, const std::string& field)
      : path_(path), lines_(path), parser_(field) {}

  bool next(Document& document) override {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    for (std::string_view line; lines_.next(line);) {
      if (lines_.line_number() == 1 && line.starts_with(kByteOrderMark))
        line.remove_prefix(kByteOrderMark.size());
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
        ++skipped_.blank_lines;
        continue;
      }
      const JsonText result = parser_.parse(line);
      if (result.kind == JsonText::Kind::kProblem) {
        throw Error(ErrorKind::kData,
                    str(path_.string(), ":", lines_.line_number(), ": ", result.problem));
      }
      if (result.kind == JsonText::Kind::kNull) {
        ++skipped_.nulls;
        continue;
      }
      document = {result.text, position_++};
      return true;
    }
    return false;
  }
  uint64_t bytes_read() const override { return lines_.file_offset(); }

 private:
  fs::path path_;
  LineReader lines_;
  JsonLineParser parser_;
  int64_t position_ = 0;
};

}  // namespace

std::unique_ptr<DocumentReader> open_text(const fs::path& path) {
  return std::make_unique<TextReader>(path);
}
std::unique_ptr<DocumentReader> open_lines(const fs::path& path) {
  return std::make_unique<LinesReader>(path);
}
std::unique_ptr<DocumentReader> open_json_lines(const fs::path& path, const std::string& field) {
  return std::make_unique<JsonLinesReader>(path, field);
}

std::unique_ptr<DocumentReader> open_documents(const fs::path& path, const std::string& format,
                                               const std::string& text_field, int64_t first) {
  if (format == "lines") return open_lines(path);
  if (format == "jsonl") return open_json_lines(path, text_field);
  if (format == "parquet") return open_parquet(path, text_field, first);
  if (format == "arrow") return open_arrow(path, text_field, first);
  if (format == "text") return open_text(path);
  throw Error(ErrorKind::kInternal, str(path.string(), " has no format yet"));
}

}  // namespace lmtrain
