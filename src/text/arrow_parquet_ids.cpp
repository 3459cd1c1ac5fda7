// open_parquet_ids of id_rows.h: lists of integers, by Parquet's own column readers, page by page
// like arrow_parquet.cpp. The columns of a row (ids, mask, labels) are read side by side.
#include <parquet/exception.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/text.h"
#include "text/arrow_parquet.h"
#include "text/id_rows.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

bool is_integer(const parquet::ColumnDescriptor& column) {
  const parquet::LogicalType& logical = *column.logical_type();
  switch (column.physical_type()) {
    case parquet::Type::BOOLEAN:
      return true;
    case parquet::Type::INT32:
    case parquet::Type::INT64:
      return logical.is_none() || logical.is_int();
    default:
      return false;
  }
}

// The leaf column of the list that has this name: NAME.list.element, NAME.array, NAME, ...
std::optional<int> find_list(const parquet::SchemaDescriptor& schema, const std::string& name) {
  constexpr std::ptrdiff_t kMostInside = 2;
  std::optional<int> found;
  for (int i = 0; i < schema.num_columns(); ++i) {
    const parquet::ColumnDescriptor& column = *schema.Column(i);
    const std::string path = column.path()->ToDotString();
    if (path != name && !path.starts_with(name + ".")) continue;
    const std::string inside = path.substr(std::min(path.size(), name.size()));
    if (column.max_repetition_level() != 1 || !is_integer(column) ||
        std::count(inside.begin(), inside.end(), '.') > kMostInside || found)
      return std::nullopt;
    found = i;
  }
  return found;
}

bool has_text(const parquet::SchemaDescriptor& schema, const std::string& name) {
  for (int i = 0; i < schema.num_columns(); ++i) {
    const parquet::ColumnDescriptor& column = *schema.Column(i);
    if (column.path()->ToDotString() == name && column.max_repetition_level() == 0 &&
        (column.physical_type() == parquet::Type::BYTE_ARRAY || column.logical_type()->is_null()))
      return true;
  }
  return false;
}

std::vector<std::string> names_of(const parquet::SchemaDescriptor& schema) {
  std::vector<std::string> names;
  const parquet::schema::GroupNode& top = *schema.group_node();
  names.reserve(static_cast<size_t>(top.field_count()));
  for (int i = 0; i < top.field_count(); ++i) names.push_back(top.field(i)->name());
  return names;
}

IdColumns id_columns_of(const parquet::SchemaDescriptor& schema, const std::string& text_field) {
  IdColumns columns = id_columns(names_of(schema), text_field, [&](const std::string& name) {
    return find_list(schema, name).has_value();
  });
  columns.has_text = has_text(schema, text_field);
  return columns;
}

// The lists of one column, row by row.
class ListColumn {
 public:
  ListColumn(fs::path path, const OpenParquet& file, int column)
      : path_(std::move(path)), file_(file), column_(column) {
    const parquet::ColumnDescriptor& descriptor = *file.metadata->schema()->Column(column);
    is_unsigned_ =
        descriptor.logical_type()->is_int() &&
        !static_cast<const parquet::IntLogicalType&>(*descriptor.logical_type()).is_signed();
    physical_ = descriptor.physical_type();
    max_level_ = descriptor.max_definition_level();
    // The definition level of a list that has elements: every optional or repeated node down to
    // the repeated one adds 1.
    std::vector<const parquet::schema::Node*> nodes;
    for (const parquet::schema::Node* node = descriptor.schema_node().get();
         node->parent() != nullptr; node = node->parent())
      nodes.push_back(node);
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      if (!(*node)->is_required()) ++element_level_;
      if ((*node)->is_repeated()) break;
    }
  }

  // Reads the next list; false at the end of the file.
  bool next(IdCell& cell, uint64_t max_document) {
    cell.clear();
    if (!available()) return false;
    if (repetition_[level_] != 0) fail("begins in the middle of a list");
    take_level(cell);
    while (available() && repetition_[level_] != 0) {
      take_level(cell);
      require_row_size(path_, row_, cell.values.size(), max_document);
    }
    ++row_;
    return true;
  }
  int64_t row() const { return row_; }

 private:
  static constexpr size_t kBatch = 1024;

  [[noreturn]] void fail(const std::string& what) const {
    fail_arrow_file(
        path_,
        str("row ", row_, " of the column ",
            quote(file_.metadata->schema()->Column(column_)->path()->ToDotString()), " ", what));
  }

  void take_level(IdCell& cell) {
    const int16_t definition = definition_[level_];
    const bool begins = repetition_[level_] == 0;
    ++level_;
    if (begins) ++rows_of_group_;
    if (definition < element_level_) {
      if (!begins) fail("has a list that ends twice");
      cell.is_null = definition < element_level_ - 1;
      return;
    }
    if (definition < max_level_) {
      if (!cell.null_at) cell.null_at = cell.values.size();
      cell.values.push_back(0);
      return;
    }
    if (value_ == num_values_) fail("has no value");
    cell.values.push_back(values_[value_++]);
  }

  // Whether there is another level; false at the end of the file.
  bool available() {
    bool is_next_group = false;
    while (level_ == num_levels_) {
      if (reader_ == nullptr) {
        if (group_ == file_.metadata->num_row_groups()) return false;
        reader_ = file_.column(group_, column_);
        rows_of_group_ = 0;
      }
      level_ = value_ = num_levels_ = num_values_ = 0;
      if (reader_->HasNext()) {
        read_batch();
        if (num_levels_ == 0) fail("has an empty page");
      } else {
        end_group();
        is_next_group = true;
      }
    }
    if (is_next_group && repetition_[level_] != 0) fail("goes on in the next row group");
    return true;
  }
  void end_group() {
    const int64_t rows = file_.metadata->RowGroup(group_)->num_rows();
    if (rows != rows_of_group_)
      fail(str("is behind the end of row group ", group_, ", which should have ", rows,
               " rows and has ", rows_of_group_));
    reader_ = nullptr;
    ++group_;
  }

  void read_batch() {
    switch (physical_) {
      case parquet::Type::BOOLEAN:
        return read_values<parquet::BoolReader>(bools_);
      case parquet::Type::INT32:
        return read_values<parquet::Int32Reader>(ints_);
      default:
        return read_values<parquet::Int64Reader>(longs_);
    }
  }
  template <class Reader, class Value>
  void read_values(std::array<Value, kBatch>& buffer) {
    int64_t num_values = 0;
    num_levels_ = static_cast<size_t>(static_cast<Reader&>(*reader_).ReadBatch(
        kBatch, definition_.data(), repetition_.data(), buffer.data(), &num_values));
    num_values_ = static_cast<size_t>(num_values);
    for (size_t i = 0; i < num_values_; ++i) values_[i] = number(buffer[i]);
  }
  template <class Value>
  int64_t number(Value value) const {
    if constexpr (std::is_same_v<Value, bool>) {
      return value ? 1 : 0;
    } else {
      return is_unsigned_ ? id_of(static_cast<std::make_unsigned_t<Value>>(value)) : value;
    }
  }

  fs::path path_;
  const OpenParquet& file_;
  int column_;
  parquet::Type::type physical_ = parquet::Type::INT64;
  bool is_unsigned_ = false;
  int16_t max_level_ = 0;
  int16_t element_level_ = 0;
  int group_ = 0;
  int64_t rows_of_group_ = 0;  // that were begun
  int64_t row_ = 0;
  std::shared_ptr<parquet::ColumnReader> reader_;
  std::array<int16_t, kBatch> definition_{};
  std::array<int16_t, kBatch> repetition_{};
  std::array<bool, kBatch> bools_{};
  std::array<int32_t, kBatch> ints_{};
  std::array<int64_t, kBatch> longs_{};
  std::array<int64_t, kBatch> values_{};
  size_t num_levels_ = 0;
  size_t num_values_ = 0;
  size_t level_ = 0;
  size_t value_ = 0;
};

class ParquetIdRows : public IdRows {
 public:
  // Without `reads` it only finds the columns.
  ParquetIdRows(const fs::path& path, const std::string& text_field, uint64_t max_document,
                bool reads)
      : path_(path), memory_(max_document), max_document_(max_document) {
    guarded([&] {
      file_.emplace(path, memory_);
      const parquet::SchemaDescriptor& schema = *file_->metadata->schema();
      columns_ = id_columns_of(schema, text_field);
      if (!reads) return;
      if (columns_.ids.empty()) fail_no_ids(path, text_field, names_of(schema));
      ids_.emplace(path, *file_, *find_list(schema, columns_.ids));
      if (columns_.has_mask) mask_.emplace(path, *file_, *find_list(schema, kMaskColumn));
      if (columns_.has_labels) labels_.emplace(path, *file_, *find_list(schema, kLabelsColumn));
    });
  }

  bool next(IdRow& row) override {
    bool found = false;
    guarded([&] {
      row.number = ids_->row();
      found = ids_->next(row.ids, max_document_);
      if (mask_) require(mask_->next(row.mask, max_document_) == found);
      if (labels_) require(labels_->next(row.labels, max_document_) == found);
    });
    return found;
  }
  uint64_t bytes_read() const override {
    const auto rows = static_cast<double>(std::max<int64_t>(file_->metadata->num_rows(), 1));
    return static_cast<uint64_t>(static_cast<double>(file_->size) *
                                 static_cast<double>(ids_ ? ids_->row() : 0) / rows);
  }

 private:
  template <class Action>
  void guarded(const Action& action) const {
    read_arrow(path_, memory_, action, [this] { return ids_ ? ids_->row() : 0; });
  }
  static void require(bool is_there) {
    if (!is_there) throw std::runtime_error("its columns have several lengths");
  }

  fs::path path_;
  TableMemory memory_;
  uint64_t max_document_;
  std::optional<OpenParquet> file_;
  std::optional<ListColumn> ids_, mask_, labels_;
};

}  // namespace

IdColumns find_parquet_ids(const fs::path& path, const std::string& text_field) {
  return ParquetIdRows(path, text_field, 0, false).columns();
}

std::unique_ptr<IdRows> open_parquet_ids(const fs::path& path, const std::string& text_field,
                                         uint64_t max_document) {
  return std::make_unique<ParquetIdRows>(path, text_field, max_document, true);
}

}  // namespace lmtrain
