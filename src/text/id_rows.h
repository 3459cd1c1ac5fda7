// Reads documents that are token ids already, from tables and shards of samples: a row is a
// document. An IdReader gives the rows of one file without their padding. It holds one row in
// memory, and a page, a batch or a sample of the file. It is for one thread. docs/data.md ("Tables
// of token ids") has the rules.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "text/source_file.h"

namespace lmtrain {

// IdColumns names the column of ids of a file, and says which columns lie beside it.
struct IdColumns {
  std::string ids;        // empty where the file has none
  bool has_text = false;  // the column data.text_field is there, and is text
  bool has_mask = false;  // "attention_mask"
  bool has_labels = false;
  std::vector<std::string> others{};  // columns that are not looked at
};
inline constexpr const char* kMaskColumn = "attention_mask";
inline constexpr const char* kLabelsColumn = "labels";

// Returns the columns of a file that has columns of these `names`, all but `has_text`. `is_ids`
// says whether one column has this name, and holds lists of integers.
IdColumns id_columns(const std::vector<std::string>& names, const std::string& text_field,
                     const std::function<bool(const std::string& name)>& is_ids);

// Returns an integer of a column as an id. A number above int64_t, no id either way, is INT64_MAX.
template <class Number>
int64_t id_of(Number number) {
  return std::in_range<int64_t>(number) ? static_cast<int64_t>(number) : INT64_MAX;
}

// The list of one column in one row.
struct IdCell {
  std::vector<int64_t> values{};
  bool is_null = false;             // the row has no list
  std::optional<size_t> null_at{};  // the first of `values` that is null

  void clear() {
    values.clear();
    is_null = false;
    null_at.reset();
  }
};
struct IdRow {
  IdCell ids{};
  IdCell mask{};       // empty without the column
  IdCell labels{};     // likewise
  int64_t number = 0;  // from 0
};

// The rows of one file as they are stored. Calls throw Error(kData) with file and row, and
// Error(kIo).
class IdRows {
 public:
  virtual ~IdRows() = default;
  // Stores the next row in `row`; returns false at the end.
  virtual bool next(IdRow& row) = 0;
  virtual uint64_t bytes_read() const = 0;  // as DocumentReader's
  const IdColumns& columns() const { return columns_; }

 protected:
  IdColumns columns_;
};

struct IdDocument {
  std::span<const int64_t> ids{};  // valid until the next call; not checked against a vocabulary
  int64_t row = 0;                 // from 0
  int64_t first = 0;               // position of ids[0] in its row
};

class IdReader {
 public:
  IdReader(std::filesystem::path path, std::unique_ptr<IdRows> rows, uint64_t max_document);

  // Stores the next document, which has at least one id; returns false at the end. Counts and skips
  // rows that are null or all padding. Leaves out padding: at both ends of a row the positions with
  // attention_mask 0, and at its right end the positions with label -100. Throws the errors of
  // IdRows and of require_row_size(), and Error(kData) naming file, row and position: an id is
  // null; mask or labels have another length; the mask is 0, or a label but the first is -100,
  // before an id that is trained on.
  bool next(IdDocument& document);
  uint64_t bytes_read() const { return rows_->bytes_read(); }
  const NoDocuments& skipped() const { return skipped_; }
  const IdColumns& columns() const { return rows_->columns(); }

 private:
  struct Range {
    size_t begin = 0;
    size_t end = 0;
  };
  Range trained_range() const;
  Range without_masked(Range range) const;
  Range without_unlabelled(Range range) const;
  void require_length(const IdCell& cell, const char* column) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path path_;
  std::unique_ptr<IdRows> rows_;
  uint64_t max_document_;
  IdRow row_;
  NoDocuments skipped_;
};

// Opens files of ids. Their container is "parquet", "arrow", "mds" (MosaicML's streaming),
// "litdata", or "tokens" for any other file (token_file.h).
class LitdataIndex;
class IdFiles {
 public:
  IdFiles();
  ~IdFiles();

  // Returns the container of a file, by its extension; for .bin also by an index.json beside it,
  // and for an unknown extension by the first bytes. Throws Error(kData), Error(kConfig) and
  // Error(kIo).
  std::string container(const std::filesystem::path& path);
  // Returns the columns of a file, whose container must be "parquet", "arrow" or "mds". Throws
  // likewise.
  static IdColumns columns(const std::filesystem::path& path, const std::string& container,
                           const std::string& text_field);
  // Opens a file, whose container must not be "tokens". `id_bytes` is the width of the ids in an
  // MDS column of encoding "bytes"; 0 stands for 8. Throws Error(kData) where the file has no
  // column of ids, and the errors of IdReader.
  IdReader open(const std::filesystem::path& path, const std::string& container,
                const std::string& text_field, uint32_t id_bytes, uint64_t max_document);

 private:
  std::unique_ptr<LitdataIndex> index_;
};

// These open the rows of tables for IdFiles::open(). `max_document` bounds their memory
// (TableMemory).
std::unique_ptr<IdRows> open_parquet_ids(const std::filesystem::path& path,
                                         const std::string& text_field, uint64_t max_document);
std::unique_ptr<IdRows> open_arrow_ids(const std::filesystem::path& path,
                                       const std::string& text_field, uint64_t max_document);

// These find the columns for IdFiles::columns().
IdColumns find_parquet_ids(const std::filesystem::path& path, const std::string& text_field);
IdColumns find_arrow_ids(const std::filesystem::path& path, const std::string& text_field);

// Throws Error(kData) that names the columns of a table without a column of ids.
[[noreturn]] void fail_no_ids(const std::filesystem::path& path, const std::string& text_field,
                              const std::vector<std::string>& columns);

// Throws Error(kData) for a list of more than `max_document` / 4 ids: each counts four bytes.
void require_row_size(const std::filesystem::path& path, int64_t row, size_t num_ids,
                      uint64_t max_document);

}  // namespace lmtrain
