// Lists the settings and values that were removed from lmtrain. A config that gives one is refused
// with a sentence that says why it was removed and what to use. One case is accepted: the own
// config.json of an old run has a removed setting at its old default.
#pragma once

#include <string_view>

#include "config/json_reader.h"

namespace lmtrain {

struct RemovedSetting {
  std::string_view key;          // dotted
  std::string_view value;        // the removed value; empty: the whole setting
  std::string_view old_default;  // of a whole setting, as JSON
  std::string_view sentence;     // why it was removed, and what to use
};

// Returns the entry of a setting that was removed as a whole; null for any other key.
const RemovedSetting* removed_setting(std::string_view key);
// Returns the entry of a value that was removed from a setting; null for any other value.
const RemovedSetting* removed_value(std::string_view key, std::string_view value);
// Returns whether `node` is the old default. Requires an entry of removed_setting().
bool is_old_default(const RemovedSetting& removed, const JsonNode& node);

}  // namespace lmtrain
