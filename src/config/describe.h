// These functions describe the settings, for people and for other programs, from the table of
// settings alone.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lmtrain {

// Returns the JSON Schema (2020-12) of the config file, for `config schema`.
nlohmann::ordered_json config_schema();
// Returns the text of `config explain KEY`: meaning, allowed values and default of a setting, or of
// all settings of a section; of all for an empty key. For optimizer.type a line a type follows:
// when to use it, what it needs, and its own keys. The key may be dotted or a JSON pointer. Throws
// Error(kUsage) that names the nearest key when it is unknown.
std::string explain_setting(const std::string& key);
// Returns the text of `config explain` without a key: the twenty settings that matter first, a line
// each, with their defaults. It fits a terminal of 24 lines and 80 columns.
std::string explain_first_settings();
// Returns the text of docs/config.md.
std::string config_reference_markdown();

}  // namespace lmtrain
