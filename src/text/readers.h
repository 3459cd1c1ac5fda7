// A reader gives the documents of one file, one after the other. It holds one line, one page of a
// column or one batch of rows in memory; for the format `text` the whole file. docs/data.md says
// what each format does with odd input. A reader is for one thread. It throws Error(kData) with
// file and location for damaged and unfit content, and Error(kIo) when the operating system
// refuses.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/byte_stream.h"
#include "text/json_line.h"
#include "text/source_file.h"

namespace lmtrain {

// A LineReader gives the lines of a file of any size, compressed or not, without "\n" or "\r\n". It
// holds one line and a buffer. It throws the errors of byte_stream.h, and Error(kData) naming file
// and line as soon as a line has more than `max_line` bytes.
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

struct Document {
  std::string_view text{};  // valid until the next call
  int64_t position = 0;  // ascending in the file: the number of the document, or in tables the row
};

class DocumentReader {
 public:
  virtual ~DocumentReader() = default;
  // Stores the next document in `document`; false, with nothing stored, at the end of the file.
  virtual bool next(Document& document) = 0;
  // Returns about how many bytes of the file have been read, compressed where it is; for progress.
  virtual uint64_t bytes_read() const = 0;
  // Counts the blank lines and nulls so far, which are no documents.
  const NoDocuments& skipped() const { return skipped_; }

 protected:
  NoDocuments skipped_;
};

// BadLine is the Error(kData) for a line of JSON lines that holds no text. Its message ends with
// the advice to skip a few such lines by data.on_bad_line; problem() is the message without it.
class BadLine : public Error {
 public:
  explicit BadLine(const std::string& problem)
      : Error(ErrorKind::kData,
              problem + "; data.on_bad_line \"skip\" leaves such lines out, at most one of 1000"),
        problem_(problem) {}
  const std::string& problem() const { return problem_; }

 private:
  std::string problem_;
};

// Takes the text out of lines of JSON lines. It is for one thread.
class JsonLines {
 public:
  // `path` names the file in messages, and `field` has the text.
  JsonLines(const std::filesystem::path& path, const std::string& field, bool skips_bad_lines);
  // Returns whether line `number`, from 1, is a document, and stores its text, which is valid until
  // the next call; else counts the line in `skipped`. Throws BadLine for a bad line unless
  // `skips_bad_lines`; and always Error(kData) for a bad first line of a file that foreign_file()
  // knows as another kind.
  bool find_text(std::string_view line, int64_t number, std::string_view& text,
                 NoDocuments& skipped);

 private:
  void take_bad_line(int64_t number, const JsonText& line, NoDocuments& skipped) const;

  std::filesystem::path path_;
  JsonLineParser parser_;
  bool skips_bad_lines_;
};

// Returns the reader of a file in `format`: "text", "lines", "jsonl", "json", "csv", "tsv",
// "parquet", "arrow" or "mds", never "auto". `text_field` is the field or column that holds the
// text. The reader may leave out documents at positions below `first` where that saves work; it
// need not, so the caller skips the others. A document, or a line of JSON lines, of more than
// `max_document` bytes is Error(kData) naming the file and the setting. A reader of text or lines
// stops there; a page of a Parquet column or a buffer of an Arrow batch may take 2 GiB in memory,
// or twice `max_document` where that is more. With `skips_bad_lines` a bad line of JSON lines is
// counted and skipped (JsonLines); else it is Error(kData).
std::unique_ptr<DocumentReader> open_documents(const std::filesystem::path& path,
                                               const std::string& format,
                                               const std::string& text_field, int64_t first,
                                               uint64_t max_document, bool skips_bad_lines = false);

// These return the readers of tables. `max_document` bounds their memory (TableMemory); only
// open_documents() refuses a larger document.
std::unique_ptr<DocumentReader> open_parquet(const std::filesystem::path& path,
                                             const std::string& column, int64_t first,
                                             uint64_t max_document);
std::unique_ptr<DocumentReader> open_arrow(const std::filesystem::path& path,
                                           const std::string& column, int64_t first,
                                           uint64_t max_document);

// Returns the reader of a table as text, whose first line names the columns. Positions are numbers
// of rows. It throws Error(kData) with file and line for a row with more or fewer fields than
// columns, and for quotes that are not closed.
std::unique_ptr<DocumentReader> open_csv(const std::filesystem::path& path,
                                         const std::string& column, char separator,
                                         uint64_t max_document);
// Returns the columns that the first line of such a table names; none where it is damaged. Throws
// the errors of open_bytes() (byte_stream.h), and Error(kIo).
std::vector<std::string> csv_columns(const std::filesystem::path& path, char separator);

// Throws Error(kData) with the names of the columns, and the one that is near to `column`, if any.
[[noreturn]] void fail_missing_column(const std::filesystem::path& path, const std::string& column,
                                      const std::vector<std::string>& names);
// Returns the reader of one JSON array, of objects with the text in `field` (json_line.h) or of
// strings.
std::unique_ptr<DocumentReader> open_json_array(const std::filesystem::path& path,
                                                const std::string& field, uint64_t max_document);

}  // namespace lmtrain
