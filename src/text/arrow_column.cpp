#include "text/arrow_column.h"

#include <arrow/array.h>
#include <arrow/type.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/text.h"
#include "text/arrow_file.h"
#include "text/readers.h"

namespace lmtrain {
namespace {

// Returns the type with the same layout that promises no UTF-8: lmtrain counts invalid UTF-8 and
// does not refuse it. Null for a type that is no text.
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

bool has_text_column(const arrow::Schema& schema, const std::string& column) {
  try {
    find_text_column(schema, column, {});
    return true;
  } catch (const Error&) {
    return false;
  }
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

bool IdColumn::is_ids(const arrow::DataType& type) {
  const bool is_list = type.id() == arrow::Type::LIST || type.id() == arrow::Type::LARGE_LIST ||
                       type.id() == arrow::Type::FIXED_SIZE_LIST;
  if (!is_list) return false;
  const arrow::Type::type value = type.field(0)->type()->id();
  return arrow::is_integer(value) || value == arrow::Type::BOOL;
}

IdColumn::IdColumn(std::shared_ptr<arrow::Array> array) : array_(std::move(array)) {
  require(array_->ValidateFull());
}

namespace {

template <class Array>
void append_numbers(const arrow::Array& values, int64_t begin, int64_t size,
                    std::vector<int64_t>& out) {
  const auto& numbers = static_cast<const Array&>(values);
  const size_t at = out.size();
  out.resize(at + static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i)
    out[at + static_cast<size_t>(i)] = id_of(numbers.Value(begin + i));
}

void append_values(const arrow::Array& values, int64_t begin, int64_t size,
                   std::vector<int64_t>& out) {
  switch (values.type_id()) {
    case arrow::Type::INT8:
      return append_numbers<arrow::Int8Array>(values, begin, size, out);
    case arrow::Type::UINT8:
      return append_numbers<arrow::UInt8Array>(values, begin, size, out);
    case arrow::Type::INT16:
      return append_numbers<arrow::Int16Array>(values, begin, size, out);
    case arrow::Type::UINT16:
      return append_numbers<arrow::UInt16Array>(values, begin, size, out);
    case arrow::Type::INT32:
      return append_numbers<arrow::Int32Array>(values, begin, size, out);
    case arrow::Type::UINT32:
      return append_numbers<arrow::UInt32Array>(values, begin, size, out);
    case arrow::Type::INT64:
      return append_numbers<arrow::Int64Array>(values, begin, size, out);
    case arrow::Type::UINT64:
      return append_numbers<arrow::UInt64Array>(values, begin, size, out);
    default:
      for (int64_t i = begin; i < begin + size; ++i)
        out.push_back(static_cast<const arrow::BooleanArray&>(values).Value(i) ? 1 : 0);
  }
}

}  // namespace

void IdColumn::read(int64_t row, IdCell& cell) const {
  cell.clear();
  cell.is_null = array_->IsNull(row);
  if (cell.is_null) return;
  const auto take = [&](const auto& list) {
    const arrow::Array& values = *list.values();
    const int64_t begin = list.value_offset(row);
    const int64_t size = list.value_length(row);
    append_values(values, begin, size, cell.values);
    if (values.null_count() == 0) return;
    for (int64_t i = 0; i < size && !cell.null_at; ++i) {
      if (values.IsNull(begin + i)) cell.null_at = static_cast<size_t>(i);
    }
  };
  switch (array_->type_id()) {
    case arrow::Type::LIST:
      return take(static_cast<const arrow::ListArray&>(*array_));
    case arrow::Type::LARGE_LIST:
      return take(static_cast<const arrow::LargeListArray&>(*array_));
    default:
      return take(static_cast<const arrow::FixedSizeListArray&>(*array_));
  }
}

}  // namespace lmtrain
