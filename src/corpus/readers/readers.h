// From one file to its documents, one after the other, in bounded memory: one line, one page of a
// column or one batch of rows, and only for the format `text` the file as a whole. One function a
// format; docs/data.md has the table of what each does with odd input. A reader belongs to one
// thread. Errors: Error(kData) with file and location for what is damaged or does not fit,
// Error(kIo) when the operating system refuses.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "corpus/readers/source_file.h"

namespace lmtrain {

struct Document {
  std::string_view text{};  // valid until the next call
  int64_t position = 0;  // ascending in the file: the number of the document, or in tables the row
};

class DocumentReader {
 public:
  virtual ~DocumentReader() = default;
  virtual bool next(Document& document) = 0;
  // Of the file, for progress; as exact as is cheap.
  virtual uint64_t bytes_read() const = 0;
  const NoDocuments& skipped() const { return skipped_; }

 protected:
  NoDocuments skipped_;
};

// `format` is decided (format.h). `first`: documents at positions below may be left out where that
// saves work.
std::unique_ptr<DocumentReader> open_documents(const std::filesystem::path& path,
                                               const std::string& format,
                                               const std::string& text_field, int64_t first = 0);

std::unique_ptr<DocumentReader> open_text(const std::filesystem::path& path);
std::unique_ptr<DocumentReader> open_lines(const std::filesystem::path& path);
std::unique_ptr<DocumentReader> open_json_lines(const std::filesystem::path& path,
                                                const std::string& field);
std::unique_ptr<DocumentReader> open_parquet(const std::filesystem::path& path,
                                             const std::string& column, int64_t first);
std::unique_ptr<DocumentReader> open_arrow(const std::filesystem::path& path,
                                           const std::string& column, int64_t first);

}  // namespace lmtrain
