// The settings described, for people and for other programs, from the table of settings alone.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lmtrain {

// `config schema`: JSON Schema (2020-12) of the file.
nlohmann::ordered_json config_schema();
// `config explain KEY`: meaning, type, default, allowed values. An unknown key is Error(kUsage)
// with the nearest. An empty key explains all.
std::string explain_setting(const std::string& key);
// docs/config.md.
std::string config_reference_markdown();

}  // namespace lmtrain
