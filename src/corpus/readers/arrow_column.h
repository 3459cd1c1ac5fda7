// Text out of a column of Arrow's: string, binary, their large and view variants, dictionaries of
// these, inside structs. Everything that bytes of a file could have got wrong (offsets, sizes,
// dictionary indices) is checked before a value is handed out. Included by corpus/arrow_*.cpp
// alone.
#pragma once

#include <arrow/array/array_base.h>
#include <arrow/type_fwd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

// Where a column is: the index of a field, then of a field of that struct, and so on.
using ColumnPath = std::vector<int>;

// A column that has the name asked for.
struct NamedColumn {
  ColumnPath path;
  size_t depth = 1;  // how many names it is made of: 1 for a field outside of structs
};
// The entry of `found`, which is not empty, with the least depth. Error(kData) naming `path` and
// `column` where two have it.
const NamedColumn& outermost_column(const std::filesystem::path& path, const std::string& column,
                                    const std::vector<NamedColumn>& found);

// `column` is the name of a field, or a.b for field b of struct a (if no field has the whole name).
// Error(kData) when it is missing, there twice, or not text.
ColumnPath find_text_column(const arrow::Schema& schema, const std::string& column,
                            const std::filesystem::path& path);

class TextColumn {
 public:
  // Throws std::runtime_error when the content contradicts itself.
  explicit TextColumn(std::shared_ptr<arrow::Array> array);
  // The column at the path `column`, whose first step has led to `top`. Throws as the constructor.
  static TextColumn of(const std::shared_ptr<arrow::Array>& top, const ColumnPath& column);

  int64_t size() const { return array_->length(); }
  // The text in a row of [0, size()), valid as long as this column; nothing for a null.
  std::optional<std::string_view> value(int64_t row) const;

 private:
  std::shared_ptr<arrow::Array> array_;
  std::unique_ptr<TextColumn> dictionary_;
};

}  // namespace lmtrain
