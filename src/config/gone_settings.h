// Lists the settings and values that lmtrain had once. A config that gives one is refused with a
// sentence that says why it was removed and what to use. A run that was begun while a setting
// existed holds the setting in its own config.json, mostly as the default; there the default is
// accepted.
#pragma once

#include <string>
#include <string_view>

#include "config/json_reader.h"

namespace lmtrain {

struct GoneSetting {
  std::string_view key;          // dotted
  std::string_view value;        // the removed value; empty: the whole setting
  std::string_view old_default;  // of a whole setting, as JSON
  std::string_view sentence;     // why it was removed, and what to use
};

// Returns the entry of a setting that was removed as a whole; null where there is none.
const GoneSetting* gone_setting(std::string_view key);
// Returns the entry of a value that a setting does not take any more; null where there is none.
const GoneSetting* gone_value(std::string_view key, std::string_view value);
// Returns whether `node` is the default that the setting had.
bool is_old_default(const GoneSetting& gone, const JsonNode& node);

}  // namespace lmtrain
