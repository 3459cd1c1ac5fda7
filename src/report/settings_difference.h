// Compares the settings of runs, key by key.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace lmtrain {

// Maps a dotted key ("optimizer.lr") to its value as JSON; an array is one value.
using FlatSettings = std::map<std::string, std::string>;
FlatSettings flatten_settings(const nlohmann::json& settings);

struct SettingsRow {
  std::string key;
  std::vector<std::string> values;  // of each run; empty: the run has no such key
};
// Returns the keys whose values are not the same in all runs, in byte order. `name` and `run_dir`
// are left out, as are the settings of runs whose map is empty: these have no values.
std::vector<SettingsRow> differing_settings(const std::vector<FlatSettings>& runs);

}  // namespace lmtrain
