#include "text/arrow_column.h"

#include <arrow/array.h>
#include <arrow/type.h>

#include <algorithm>
#include <stdexcept>

#include "base/text.h"
#include "text/arrow_file.h"

namespace lmtrain {
namespace {

// The same layout without the promise of UTF-8, which is ours to count and not to refuse; null for
// what is no text.
std::shared_ptr<arrow::DataType> as_bytes(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return arrow::binary();
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return arrow::large_binary();
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
      return arrow::binary_view();
    default:
      return nullptr;
  }
}

bool is_text(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY)
    return is_text(*static_cast<const arrow::DictionaryType&>(type).value_type());
  return type.id() == arrow::Type::NA || as_bytes(type) != nullptr;
}

void require(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

// The names of all columns, structs as a.b, and where `wanted` is among them.
struct Search {
  std::string wanted;
  std::vector<std::string> names{};
  std::vector<NamedColumn> found{};
  static constexpr size_t kDeepest = 16;

  void visit(const arrow::FieldVector& fields, const std::string& prefix, ColumnPath& path) {
    for (size_t i = 0; i < fields.size(); ++i) {
      const std::string name = prefix + fields[i]->name();
      path.push_back(static_cast<int>(i));
      names.push_back(name);
      // The field of a struct whose column has no type, since all of it is null.
      const bool is_around =
          wanted.starts_with(name + ".") && fields[i]->type()->id() == arrow::Type::NA;
      if (name == wanted) found.push_back({path, path.size()});
      if (is_around) found.push_back({path, path.size() + 1});
      if (fields[i]->type()->id() == arrow::Type::STRUCT && path.size() < kDeepest)
        visit(fields[i]->type()->fields(), name + ".", path);
      path.pop_back();
    }
  }
};

}  // namespace

const NamedColumn& outermost_column(const std::filesystem::path& path, const std::string& column,
                                    const std::vector<NamedColumn>& found) {
  const auto is_nearer = [](const NamedColumn& a, const NamedColumn& b) {
    return a.depth < b.depth;
  };
  const auto nearest = std::min_element(found.begin(), found.end(), is_nearer);
  const auto num_nearest = std::count_if(found.begin(), found.end(), [&](const NamedColumn& one) {
    return one.depth == nearest->depth;
  });
  if (num_nearest > 1) fail_ambiguous_column(path, column);
  return *nearest;
}

ColumnPath find_text_column(const arrow::Schema& schema, const std::string& column,
                            const std::filesystem::path& path) {
  Search search{column};
  ColumnPath column_path;
  search.visit(schema.fields(), "", column_path);
  if (search.found.empty()) fail_missing_column(path, column, search.names);
  column_path = outermost_column(path, column, search.found).path;
  const arrow::DataType* type = schema.field(column_path[0])->type().get();
  for (size_t i = 1; i < column_path.size(); ++i) type = type->field(column_path[i])->type().get();
  if (!is_text(*type)) fail_column_type(path, column, type->ToString());
  return column_path;
}

TextColumn::TextColumn(std::shared_ptr<arrow::Array> array) : array_(std::move(array)) {
  if (array_->type_id() == arrow::Type::DICTIONARY) {
    const auto& dictionary = static_cast<const arrow::DictionaryArray&>(*array_);
    require(dictionary.indices()->ValidateFull());
    dictionary_ = std::make_unique<TextColumn>(dictionary.dictionary());
    return;
  }
  if (const std::shared_ptr<arrow::DataType> bytes = as_bytes(*array_->type())) {
    std::shared_ptr<arrow::ArrayData> data = array_->data()->Copy();
    data->type = bytes;
    array_ = arrow::MakeArray(data);
  }
  require(array_->ValidateFull());
}

TextColumn TextColumn::of(const std::shared_ptr<arrow::Array>& top, const ColumnPath& column) {
  std::shared_ptr<arrow::Array> array = top;
  for (size_t i = 1; i < column.size(); ++i) {
    require(array->Validate());
    // Null where the struct is null.
    auto inner = static_cast<const arrow::StructArray&>(*array).GetFlattenedField(column[i]);
    require(inner.status());
    array = *inner;
  }
  return TextColumn(array);
}

std::optional<std::string_view> TextColumn::value(int64_t row) const {
  if (array_->IsNull(row)) return std::nullopt;
  switch (array_->type_id()) {
    case arrow::Type::BINARY:
      return static_cast<const arrow::BinaryArray&>(*array_).GetView(row);
    case arrow::Type::LARGE_BINARY:
      return static_cast<const arrow::LargeBinaryArray&>(*array_).GetView(row);
    case arrow::Type::BINARY_VIEW:
      return static_cast<const arrow::BinaryViewArray&>(*array_).GetView(row);
    case arrow::Type::DICTIONARY: {
      const int64_t entry = static_cast<const arrow::DictionaryArray&>(*array_).GetValueIndex(row);
      if (entry < 0 || entry >= dictionary_->size())
        throw std::runtime_error(str("entry ", entry, " of a dictionary of ", dictionary_->size()));
      return dictionary_->value(entry);
    }
    default:
      throw std::runtime_error(str("type ", array_->type()->ToString(), " is no text"));
  }
}

}  // namespace lmtrain
