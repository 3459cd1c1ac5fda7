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
// The one of the fewest names. Error(kData) where there are two.
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
  // `column[0]` is `top` already; the rest leads into it.
  static TextColumn of(const std::shared_ptr<arrow::Array>& top, const ColumnPath& column);

  int64_t size() const { return array_->length(); }
  // Nothing for a null.
  std::optional<std::string_view> value(int64_t row) const;

 private:
  std::shared_ptr<arrow::Array> array_;
  std::unique_ptr<TextColumn> dictionary_;
};

}  // namespace lmtrain
