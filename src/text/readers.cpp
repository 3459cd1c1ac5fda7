// The readers of plain text, lines and JSON lines, and the choice among all readers.

#include "text/readers.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/foreign_text.h"
#include "base/text.h"
#include "base/utf8.h"
#include "text/byte_stream.h"
#include "text/sample_shard.h"
#include "text/source_file.h"

namespace lmtrain {

void fail_missing_column(const std::filesystem::path& path, const std::string& column,
                         const std::vector<std::string>& names) {
  constexpr size_t kMostNames = 50;
  const std::string nearest = nearest_word(column, names);
  throw Error(ErrorKind::kData,
              str(shown(path), ": no column ", quote(column), " (data.text_field); ",
                  nearest.empty() ? std::string() : str("did you mean ", quote(nearest), "? "),
                  "the file has: ", quoted_list(names, kMostNames)));
}

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

// Moves the pending bytes to the front and reads more; returns false at the end of the file.
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

JsonLines::JsonLines(const std::filesystem::path& path, const std::string& field,
                     bool skips_bad_lines)
    : path_(path), parser_(field), skips_bad_lines_(skips_bad_lines) {}

bool JsonLines::find_text(std::string_view line, int64_t number, std::string_view& text,
                          NoDocuments& skipped) {
  if (number == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
    ++skipped.blank_lines;
    return false;
  }
  ++skipped.json_lines;
  const JsonText result = parser_.parse(line);
  switch (result.kind) {
    case JsonText::Kind::kProblem:
      take_bad_line(number, result, skipped);
      return false;
    case JsonText::Kind::kNull:
      ++skipped.nulls;
      return false;
    case JsonText::Kind::kText:
      break;
  }
  text = result.text;
  return true;
}

void JsonLines::take_bad_line(int64_t number, const JsonText& line, NoDocuments& skipped) const {
  if (number == 1) {
    if (const std::string other = foreign_file(path_); !other.empty())
      throw Error(ErrorKind::kData, str(shown(path_), ": is ", other));
  }
  const std::string where = str(shown(path_), ":", number, ": ");
  if (!skips_bad_lines_) throw BadLine(where + line.message());
  skipped.add_bad_line(where + line.problem);  // the advice comes once for all lines
}

namespace {

namespace fs = std::filesystem;

class TextReader : public DocumentReader {
 public:
  TextReader(const fs::path& path, uint64_t max_document)
      : path_(path), max_document_(max_document), bytes_(open_bytes(path)) {}

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
      if (size > max_document_) {
        fail_large_document(shown(path_), "a document", max_document_,
                            "where its lines are documents, set data.format to \"lines\" or "
                            "\"jsonl\"; else ");
      }
    }
    document = {std::string_view(text_).substr(0, size), 0};
    if (const std::string other = foreign_text(document.text); !other.empty())
      throw Error(ErrorKind::kData, str(shown(path_), ": is ", other));
    return true;
  }
  uint64_t bytes_read() const override { return bytes_->file_offset(); }

 private:
  fs::path path_;
  uint64_t max_document_;
  std::unique_ptr<ByteStream> bytes_;
  std::string text_;
  bool done_ = false;
};

class LinesReader : public DocumentReader {
 public:
  LinesReader(const fs::path& path, uint64_t max_document) : lines_(path, max_document) {}

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
  JsonLinesReader(const fs::path& path, const std::string& field, uint64_t max_document,
                  bool skips_bad_lines)
      : lines_(path, max_document), json_(path, field, skips_bad_lines) {}

  bool next(Document& document) override {
    for (std::string_view line; lines_.next(line);) {
      if (!json_.find_text(line, lines_.line_number(), document.text, skipped_)) continue;
      document.position = position_++;
      return true;
    }
    return false;
  }
  uint64_t bytes_read() const override { return lines_.file_offset(); }

 private:
  LineReader lines_;
  JsonLines json_;
  int64_t position_ = 0;
};

// Throws for a document of a table above the limit. Its page or batch has been read by then.
class BoundedTable : public DocumentReader {
 public:
  BoundedTable(fs::path path, std::unique_ptr<DocumentReader> table, uint64_t max_document)
      : path_(std::move(path)), table_(std::move(table)), max_document_(max_document) {}

  bool next(Document& document) override {
    const bool found = table_->next(document);
    skipped_ = table_->skipped();
    if (found && document.text.size() > max_document_) {
      fail_large_document(str(shown(path_), ": row ", document.position), "a document",
                          max_document_);
    }
    return found;
  }
  uint64_t bytes_read() const override { return table_->bytes_read(); }

 private:
  fs::path path_;
  std::unique_ptr<DocumentReader> table_;
  uint64_t max_document_;
};

}  // namespace

std::unique_ptr<DocumentReader> open_documents(const fs::path& path, const std::string& format,
                                               const std::string& text_field, int64_t first,
                                               uint64_t max_document, bool skips_bad_lines) {
  if (format == "lines") return std::make_unique<LinesReader>(path, max_document);
  if (format == "jsonl") {
    return std::make_unique<JsonLinesReader>(path, text_field, max_document, skips_bad_lines);
  }
  if (format == "json") return open_json_array(path, text_field, max_document);
  if (format == "csv") return open_csv(path, text_field, ',', max_document);
  if (format == "tsv") return open_csv(path, text_field, '\t', max_document);
  if (format == "text") return std::make_unique<TextReader>(path, max_document);
  std::unique_ptr<DocumentReader> table;
  if (format == "parquet") table = open_parquet(path, text_field, first, max_document);
  if (format == "arrow") table = open_arrow(path, text_field, first, max_document);
  if (format == "mds") table = open_mds(path, text_field, max_document);
  if (!table) throw Error(ErrorKind::kInternal, str(shown(path), " has no format yet"));
  return std::make_unique<BoundedTable>(path, std::move(table), max_document);
}

}  // namespace lmtrain
