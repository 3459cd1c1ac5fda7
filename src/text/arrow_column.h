// Reads text and ids from columns of Arrow: string, binary, their large and view variants,
// dictionaries of these, fields of structs, and lists of integers. Checks offsets, sizes and
// dictionary indices, which a damaged file may have wrong, before it returns a value; does not
// check UTF-8. Only the readers arrow_*.cpp of this folder include it.
#pragma once

#include <arrow/array/array_base.h>
#include <arrow/type_fwd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/id_rows.h"

namespace lmtrain {

// A ColumnPath leads to a column: the index of a field, then of a field of that struct, and so on.
// For Parquet, which numbers its leaf columns, it is one index.
using ColumnPath = std::vector<int>;

// A column with the wanted name.
struct NamedColumn {
  ColumnPath path;
  size_t depth = 1;  // names from the outermost struct to the field; 1 without a struct
};
// Returns the entry of `found`, which must not be empty, with the least depth. Throws Error(kData)
// naming `path` and `column` where two entries have that depth.
const NamedColumn& outermost_column(const std::filesystem::path& path, const std::string& column,
                                    const std::vector<NamedColumn>& found);

// Returns the path to a text column. `column` is the name of a field, or a.b for field b of struct
// a; a field whose whole name is a.b comes first. Throws Error(kData) that names the file `path`
// where the column is missing, there twice, or not text.
ColumnPath find_text_column(const arrow::Schema& schema, const std::string& column,
                            const std::filesystem::path& path);

// Returns whether find_text_column() would find one.
bool has_text_column(const arrow::Schema& schema, const std::string& column);

class TextColumn {
 public:
  // `array` has a type that find_text_column() accepts. Throws std::runtime_error when its offsets
  // or sizes contradict each other.
  explicit TextColumn(std::shared_ptr<arrow::Array> array);
  // Returns the column at the path `column`. `top` is the array of the outermost field, column[0];
  // the indices after it lead to fields inside. Throws like the constructor.
  static TextColumn of(const std::shared_ptr<arrow::Array>& top, const ColumnPath& column);

  int64_t size() const { return array_->length(); }
  // Returns the text of row `row` in [0, size()), valid as long as this column; nothing where the
  // row or the struct around it is null. Throws std::runtime_error for an index beyond the
  // dictionary.
  std::optional<std::string_view> value(int64_t row) const;

 private:
  std::shared_ptr<arrow::Array> array_;
  std::unique_ptr<TextColumn> dictionary_;
};

// A column of lists of integers or booleans: list, large list, list of fixed size.
class IdColumn {
 public:
  static bool is_ids(const arrow::DataType& type);
  // Throws std::runtime_error when its offsets contradict each other. Requires is_ids().
  explicit IdColumn(std::shared_ptr<arrow::Array> array);
  int64_t size() const { return array_->length(); }
  // Stores the list of a row in [0, size()). A number above int64_t becomes INT64_MAX.
  void read(int64_t row, IdCell& cell) const;

 private:
  std::shared_ptr<arrow::Array> array_;
};

}  // namespace lmtrain
