// open_parquet of readers.h: row group by row group and page by page, the pages of one column
// alone.
//
// By Parquet's own column reader rather than by Arrow tables: its values point into the page, so
// that memory holds one page whatever the size of row groups, and how a writer stored the text
// (string, large string, view, dictionary) makes no difference. The column of a small row group is
// read as a whole: then a damaged page cannot ask for more memory than the column has bytes.
#include "text/arrow_parquet.h"

#include <parquet/exception.h>

#include <array>
#include <optional>

#include "base/text.h"
#include "text/arrow_column.h"
#include "text/readers.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

class ParquetReader : public DocumentReader {
 public:
  ParquetReader(const fs::path& path, const std::string& column, int64_t first,
                uint64_t max_document)
      : path_(path), memory_(max_document) {
    guarded([&] {
      file_.emplace(path, memory_);
      find_column(column);
      while (group_ < file_->metadata->num_row_groups() && group_rows(group_) <= first - row_)
        row_ += group_rows(group_++);
    });
  }

  bool next(Document& document) override {
    while (has_only_nulls_ && group_ < file_->metadata->num_row_groups()) {
      const int64_t rows = group_rows(group_++);
      skipped_.nulls += rows;
      row_ += rows;
    }
    for (;;) {
      while (level_ < num_levels_) {
        const int64_t row = row_++;
        // Nulls have a level and no value; a column without nulls has no levels at all.
        if (defined_ > 0 && levels_[level_] < defined_) {
          ++level_;
          ++skipped_.nulls;
          continue;
        }
        ++level_;
        if (value_ == num_values_) fail_arrow_file(path_, str("row ", row, " has no value"));
        const parquet::ByteArray& text = values_[value_++];
        document = {{reinterpret_cast<const char*>(text.ptr), text.len}, row};
        return true;
      }
      bool more = false;
      guarded([&] { more = read_batch(); });
      if (!more) return false;
    }
  }

  uint64_t bytes_read() const override {
    const auto rows = static_cast<double>(std::max<int64_t>(file_->metadata->num_rows(), 1));
    return static_cast<uint64_t>(static_cast<double>(file_->size) * static_cast<double>(row_) /
                                 rows);
  }

 private:
  static constexpr size_t kBatchValues = 1024;

  template <class Action>
  void guarded(const Action& action) const {
    read_arrow(path_, memory_, action, [this] { return row_; });
  }

  int64_t group_rows(int group) const {
    const int64_t rows = file_->metadata->RowGroup(group)->num_rows();
    if (rows < 0)
      fail_arrow_file(path_, str("row group ", group, " says that it has ", rows, " rows"));
    return rows;
  }

  // Arrow writes a column of its type null as integers that are all null.
  bool is_null_type(int column) const {
    return file_->metadata->schema()->Column(column)->logical_type()->is_null();
  }

  // A column that has the whole name comes before one inside a struct, as for JSON lines.
  void find_column(const std::string& wanted) {
    const parquet::SchemaDescriptor& schema = *file_->metadata->schema();
    std::vector<std::string> names;
    std::vector<NamedColumn> found;
    for (int i = 0; i < schema.num_columns(); ++i) {
      const auto path = schema.Column(i)->path();
      names.push_back(path->ToDotString());
      // The field of a struct whose column has no type, since all of it is null.
      const bool is_around = wanted.starts_with(names.back() + ".") && is_null_type(i);
      const size_t depth = path->ToDotVector().size();
      if (names.back() == wanted) found.push_back({{i}, depth});
      if (is_around) found.push_back({{i}, depth + 1});
    }
    if (found.empty()) fail_missing_column(path_, wanted, names);
    const parquet::schema::GroupNode& top = *schema.group_node();
    for (int i = 0; i < top.field_count(); ++i) {
      if (top.field(i)->is_group() && top.field(i)->name() == wanted)
        fail_column_type(path_, wanted, "a struct or list");
    }
    column_ = outermost_column(path_, wanted, found).path[0];
    const parquet::ColumnDescriptor& column = *schema.Column(column_);
    if (column.max_repetition_level() > 0) fail_column_type(path_, wanted, "a list");
    has_only_nulls_ = is_null_type(column_);
    if (has_only_nulls_) return;
    const parquet::LogicalType& logical = *column.logical_type();
    const bool is_text = logical.is_string() || logical.is_none() || logical.is_enum() ||
                         logical.is_JSON() || logical.is_null();
    if (column.physical_type() != parquet::Type::BYTE_ARRAY || !is_text) {
      fail_column_type(
          path_, wanted,
          logical.is_none() ? parquet::TypeToString(column.physical_type()) : logical.ToString());
    }
    defined_ = column.max_definition_level();
  }

  // One batch of values, which never cross a page; false at the end of the file.
  bool read_batch() {
    if (reader_ == nullptr) {
      if (group_ == file_->metadata->num_row_groups()) return false;
      reader_ = std::dynamic_pointer_cast<parquet::ByteArrayReader>(file_->column(group_, column_));
      rows_left_ = group_rows(group_);
    }
    level_ = value_ = num_levels_ = 0;
    if (reader_->HasNext()) {
      int64_t num_values = 0;
      num_levels_ = static_cast<size_t>(
          reader_->ReadBatch(kBatchValues, levels_.data(), nullptr, values_.data(), &num_values));
      if (num_levels_ == 0) fail_arrow_file(path_, str("row ", row_, ": an empty page"));
      num_values_ = static_cast<size_t>(num_values);
      rows_left_ -= static_cast<int64_t>(num_levels_);
      if (rows_left_ < 0) fail_arrow_file(path_, str("row group ", group_, " holds too many rows"));
      return true;
    }
    if (rows_left_ != 0)
      fail_arrow_file(path_, str("row group ", group_, " lacks ", rows_left_, " rows"));
    reader_ = nullptr;
    ++group_;
    return true;
  }

  fs::path path_;
  TableMemory memory_;
  std::optional<OpenParquet> file_;
  int column_ = -1;
  bool has_only_nulls_ = false;
  int16_t defined_ = 0;  // the definition level of a value that is there
  int group_ = 0;
  int64_t rows_left_ = 0;  // of the group, not yet read
  int64_t row_ = 0;
  std::shared_ptr<parquet::ByteArrayReader> reader_;
  std::array<int16_t, kBatchValues> levels_{};
  std::array<parquet::ByteArray, kBatchValues> values_{};
  size_t num_levels_ = 0;
  size_t num_values_ = 0;
  size_t level_ = 0;
  size_t value_ = 0;
};

}  // namespace

std::unique_ptr<DocumentReader> open_parquet(const fs::path& path, const std::string& column,
                                             int64_t first, uint64_t max_document) {
  return std::make_unique<ParquetReader>(path, column, first, max_document);
}

}  // namespace lmtrain
