#include "eval/json_record.h"

#include <algorithm>

#include "base/error.h"
#include "base/examine.h"
#include "base/read_file.h"
#include "base/text.h"
#include "formats/strict_json.h"

namespace lmtrain {
namespace {

using nlohmann::json;

constexpr uint64_t kMostOfRecords = uint64_t{4} << 30;

json parse_line(std::string_view line, const std::string& where) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
    throw Error(ErrorKind::kData,
                str(where, ": the line is blank; each line is one JSON object, remove it"));
  }
  return parse_strict_json(line,
                           {ErrorKind::kData, where, "each line is one JSON object, mend it"});
}

}  // namespace

JsonRecord::JsonRecord(std::string_view line, std::string where)
    : where_(std::move(where)), object_(parse_line(line, where_)) {
  if (!object_.is_object())
    fail(str("the line is ", object_.type_name(), ", not an object; put its fields into braces"));
}

void JsonRecord::fail(const std::string& what) const {
  throw Error(ErrorKind::kData, str(where_, ": ", what));
}

const json& JsonRecord::field(const char* name) const {
  const auto found = object_.find(name);
  if (found == object_.end()) fail(str("the field \"", name, "\" is missing"));
  return *found;
}

std::string JsonRecord::text(const char* name) const {
  const json& value = field(name);
  if (!value.is_string()) fail(str("\"", name, "\" is ", value.type_name(), ", not a string"));
  return value.get<std::string>();
}

std::vector<std::string> JsonRecord::texts(const char* name) const {
  const json& value = field(name);
  const auto is_text = [](const json& item) { return item.is_string(); };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_text))
    fail(str("\"", name, "\" is not a list of strings"));
  return value.get<std::vector<std::string>>();
}

int64_t JsonRecord::integer(const char* name) const {
  const json& value = field(name);
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{INT64_MAX});
  if (!fits) fail(str("\"", name, "\" is not an integer"));
  return value.get<int64_t>();
}

std::vector<int64_t> JsonRecord::integers(const char* name) const {
  const json& value = field(name);
  const auto is_index = [](const json& item) {
    return item.is_number_unsigned() && item.get<uint64_t>() <= uint64_t{INT64_MAX};
  };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_index))
    fail(str("\"", name, "\" is not a list of integers from 0"));
  return value.get<std::vector<int64_t>>();
}

void require_record_file(const std::filesystem::path& path) {
  if (!is_there(path))
    throw Error(ErrorKind::kUsage, str(path.string(), " does not exist; check the spelling"));
  if (is_folder(path)) {
    throw Error(ErrorKind::kUsage, str(path.string(), " is a folder; give a file of JSON lines"));
  }
}

void for_each_record(const std::filesystem::path& path,
                     const std::function<void(const JsonRecord& record)>& visit) {
  require_record_file(path);
  const std::string text = read_file_or_pipe(path, kMostOfRecords);
  int64_t number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    visit(JsonRecord(rest.substr(0, end), str(path.string(), ":", ++number)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

}  // namespace lmtrain
