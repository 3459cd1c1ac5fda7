#include "text/id_rows.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "text/byte_stream.h"
#include "text/content.h"
#include "text/sample_shard.h"

namespace lmtrain {

namespace fs = std::filesystem;

namespace {

// The names that a column of ids may have, the first choice first.
std::vector<std::string> id_column_names(const std::string& text_field) {
  return {text_field, "input_ids", "tokens"};
}

}  // namespace

IdColumns id_columns(const std::vector<std::string>& names, const std::string& text_field,
                     const std::function<bool(const std::string& name)>& is_ids) {
  IdColumns columns;
  for (const std::string& name : id_column_names(text_field)) {
    if (columns.ids.empty() && is_ids(name)) columns.ids = name;
  }
  columns.has_mask = columns.ids != kMaskColumn && is_ids(kMaskColumn);
  columns.has_labels = columns.ids != kLabelsColumn && is_ids(kLabelsColumn);
  for (const std::string& name : names) {
    const bool is_read = name == columns.ids || (columns.has_mask && name == kMaskColumn) ||
                         (columns.has_labels && name == kLabelsColumn);
    if (!is_read) columns.others.push_back(name);
  }
  return columns;
}

IdReader::IdReader(fs::path path, std::unique_ptr<IdRows> rows, uint64_t max_document)
    : path_(std::move(path)), rows_(std::move(rows)), max_document_(max_document) {}

bool IdReader::next(IdDocument& document) {
  while (rows_->next(row_)) {
    if (row_.ids.is_null) {
      ++skipped_.nulls;
      continue;
    }
    require_row_size(path_, row_.number, row_.ids.values.size(), max_document_);
    if (row_.ids.null_at)
      fail(str("position ", *row_.ids.null_at, " of ", quote(columns().ids),
               " is null, and a document has an id at each"));
    const Range range = trained_range();
    skipped_.padding += static_cast<int64_t>(row_.ids.values.size() - (range.end - range.begin));
    if (range.begin == range.end) {
      ++skipped_.empty_rows;
      continue;
    }
    document = {std::span(row_.ids.values).subspan(range.begin, range.end - range.begin),
                row_.number, static_cast<int64_t>(range.begin)};
    return true;
  }
  return false;
}

IdReader::Range IdReader::trained_range() const {
  const Range range = without_masked({0, row_.ids.values.size()});
  return range.begin == range.end ? range : without_unlabelled(range);
}

IdReader::Range IdReader::without_masked(Range range) const {
  if (!columns().has_mask) return range;
  require_length(row_.mask, kMaskColumn);
  const std::vector<int64_t>& mask = row_.mask.values;
  while (range.begin < range.end && mask[range.begin] == 0) ++range.begin;
  while (range.end > range.begin && mask[range.end - 1] == 0) --range.end;
  const auto begin = mask.begin() + static_cast<ptrdiff_t>(range.begin);
  const auto end = mask.begin() + static_cast<ptrdiff_t>(range.end);
  if (const auto hole = std::find(begin, end, 0); hole != end) {
    fail(str(kMaskColumn, " is 0 at position ", hole - mask.begin(),
             ", before ids that count; padding is left out at the ends of a row alone: write the "
             "rows without it, or without the column"));
  }
  return range;
}

IdReader::Range IdReader::without_unlabelled(Range range) const {
  constexpr int64_t kNoTarget = -100;
  if (!columns().has_labels) return range;
  require_length(row_.labels, kLabelsColumn);
  const std::vector<int64_t>& labels = row_.labels.values;
  const size_t first = range.begin + 1;  // target
  while (range.end > first && labels[range.end - 1] == kNoTarget) --range.end;
  if (range.end == first && labels.size() > first && labels[first] == kNoTarget)
    return {range.begin, range.begin};  // a row without a target
  for (size_t i = first; i < range.end; ++i) {
    if (labels[i] != kNoTarget) continue;
    fail(str(kLabelsColumn, " is -100 at position ", i,
             ", so that this id is no target, and ids behind it are; a part of a document cannot "
             "be left out of the loss: take the column ",
             kLabelsColumn, " out to train on all ids, or write the wanted ids alone"));
  }
  return range;
}

void IdReader::require_length(const IdCell& cell, const char* column) const {
  if (cell.null_at) fail(str("position ", *cell.null_at, " of ", column, " is null"));
  if (cell.is_null) fail(str(column, " is null, and ", columns().ids, " is not"));
  if (cell.values.size() == row_.ids.values.size()) return;
  fail(str(column, " has ", cell.values.size(), " values, and ", columns().ids, " has ",
           row_.ids.values.size()));
}

void IdReader::fail(const std::string& what) const {
  throw Error(ErrorKind::kData, str(shown(path_), ": row ", row_.number, ": ", what));
}

void require_row_size(const fs::path& path, int64_t row, size_t num_ids, uint64_t max_document) {
  if (num_ids <= max_document / sizeof(int32_t)) return;
  fail_large_document(str(shown(path), ": row ", row), "a list of ids", max_document);
}

void fail_no_ids(const fs::path& path, const std::string& text_field,
                 const std::vector<std::string>& columns) {
  constexpr size_t kMostNames = 50;
  throw Error(
      ErrorKind::kData,
      str(shown(path), ": no column of token ids, which are lists of integers; looked for ",
          quoted_list(id_column_names(text_field), kMostNames),
          " (data.text_field names another); the file has: ", quoted_list(columns, kMostNames)));
}

IdFiles::IdFiles() : index_(std::make_unique<LitdataIndex>()) {}
IdFiles::~IdFiles() = default;

std::string IdFiles::container(const fs::path& path) {
  const std::string extension = without_compression(path.filename()).extension().native();
  if (extension == ".parquet") return "parquet";
  if (extension == ".arrow" || extension == ".feather") return "arrow";
  if (extension == ".mds") return "mds";
  if (extension == ".bin" && index_->chunk(path)) return "litdata";
  if (extension == ".bin" || extension == ".npy" || extension == ".idx") return "tokens";
  switch (look_at(path, "text").kind) {
    case Content::Kind::kParquet:
      return "parquet";
    case Content::Kind::kArrow:
      return "arrow";
    default:
      return "tokens";
  }
}

IdColumns IdFiles::columns(const fs::path& path, const std::string& container,
                           const std::string& text_field) {
  if (container == "parquet") return find_parquet_ids(path, text_field);
  if (container == "arrow") return find_arrow_ids(path, text_field);
  if (container == "mds") return find_mds_ids(path, text_field);
  throw Error(ErrorKind::kInternal, str(shown(path), " has no columns of ids"));
}

IdReader IdFiles::open(const fs::path& path, const std::string& container,
                       const std::string& text_field, uint32_t id_bytes, uint64_t max_document) {
  std::unique_ptr<IdRows> rows;
  if (container == "parquet") rows = open_parquet_ids(path, text_field, max_document);
  if (container == "arrow") rows = open_arrow_ids(path, text_field, max_document);
  if (container == "mds") rows = open_mds_ids(path, text_field, id_bytes, max_document);
  if (container == "litdata") {
    if (const std::optional<LitdataChunk> chunk = index_->chunk(path))
      rows = open_litdata_ids(path, *chunk, max_document);
  }
  if (!rows) throw Error(ErrorKind::kInternal, str(shown(path), " is no table of ids"));
  return {path, std::move(rows), max_document};
}

}  // namespace lmtrain
