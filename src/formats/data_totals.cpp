#include "formats/data_totals.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/read_file.h"
#include "formats/json_fields.h"
#include "formats/strict_json.h"

namespace lmtrain {

using Fields = JsonFields<nlohmann::json>;

static void list_fields(Fields& json, TextTotals& text) {
  json.field("documents", text.documents);
  json.field("tokens", text.tokens);
  json.field("bytes", text.bytes);
}

static void list_fields(Fields& json, SourceTotals& source) {
  json.field("source", source.source);
  json.field("documents", source.documents);
  json.field("targets", source.targets);
}

static void list_fields(Fields& json, DataTotals& totals) {
  json.field("train", totals.train);
  json.field("held_out", totals.held_out);
  json.field("sources", totals.sources);
}

void write_data_totals(const std::filesystem::path& file, const DataTotals& totals) {
  nlohmann::json fields;
  Fields::write(fields, totals);
  write_file_atomic(file, checked_json_text(std::move(fields)));
}

std::optional<DataTotals> read_data_totals(const std::filesystem::path& file) {
  if (!is_there(file)) return std::nullopt;
  try {
    DataTotals totals;
    Fields::read(read_checked_json(file, kMostOfSmallFile), totals);
    return totals;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo) throw;
    return std::nullopt;
  }
}

}  // namespace lmtrain
