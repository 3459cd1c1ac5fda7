#include "report/settings_difference.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"

namespace lmtrain {
namespace {

void flatten(const nlohmann::json& value, const std::string& key, FlatSettings& flat) {
  if (value.is_object() && (key.empty() || !value.empty())) {
    for (const auto& [name, member] : value.items())
      flatten(member, key.empty() ? name : str(key, ".", name), flat);
    return;
  }
  flat[key] = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

FlatSettings flatten_settings(const nlohmann::json& settings) {
  FlatSettings flat;
  if (settings.is_object()) flatten(settings, "", flat);
  return flat;
}

std::vector<SettingsRow> differing_settings(const std::vector<FlatSettings>& runs) {
  std::set<std::string> keys;
  for (const FlatSettings& run : runs)
    for (const auto& [key, value] : run) keys.insert(key);
  keys.erase("name");
  keys.erase("run_dir");
  std::vector<SettingsRow> rows;
  for (const std::string& key : keys) {
    SettingsRow row = {key, {}};
    std::set<std::string> known;  // values of the runs whose settings were read
    for (const FlatSettings& run : runs) {
      const auto found = run.find(key);
      row.values.push_back(found == run.end() ? "" : found->second);
      if (!run.empty()) known.insert(row.values.back());
    }
    if (known.size() > 1) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace lmtrain
