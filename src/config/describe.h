// These functions describe the settings, for people and for other programs, from the table of
// settings alone.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "config/settings.h"

namespace lmtrain {

// Returns the JSON Schema (2020-12) of the config file, for `config schema`.
nlohmann::ordered_json config_schema();
// Returns the text of `config explain KEY`: meaning, allowed values and default of a setting, or of
// all settings of a section, or for "" of all settings. For optimizer.type a line for each type
// follows: when to use it, what it needs, and its own keys. The key may be dotted or a JSON
// pointer. Throws Error(kUsage) for an unknown key, with the nearest one, and for a removed
// setting.
std::string explain_setting(const std::string& key);
// Returns the text of `config explain` without a key: the twenty settings that matter first, a line
// each, with their defaults. It fits a terminal of 24 lines and 80 columns.
std::string explain_first_settings();
// Returns the text of docs/config.md.
std::string config_reference_markdown();

// A SettingsCatalog has all settings with their defaults, also the settings inside lists and
// objects. `config explain`, the JSON Schema and docs/config.md are made from it.
class SettingsCatalog {
 public:
  SettingsCatalog();
  SettingsCatalog(const SettingsCatalog&) = delete;
  SettingsCatalog& operator=(const SettingsCatalog&) = delete;

  struct Entry {
    std::string key;  // "optimizer.lr", "data.train[].weight"
    const Setting* setting;
  };
  const SettingTable& config() const { return config_table_; }
  // Returns the table of the objects that a setting holds; null for a setting that holds none.
  const SettingTable* inside(const Setting& setting) const;
  // Returns all settings in the order of the table. The settings of objects follow the first
  // setting that holds such objects.
  std::vector<Entry> entries() const;

 private:
  Config config_;
  DataSourceConfig source_;
  OptimizerGroupConfig group_;
  RopeScalingConfig scaling_;
  EarlyStopConfig early_stop_;
  SamplesConfig samples_;
  SettingTable config_table_;
  SettingTable source_table_;
  SettingTable group_table_;
  SettingTable scaling_table_;
  SettingTable early_stop_table_;
  SettingTable samples_table_;
};

// Returns the default in words: "0.001", "null: train one", "none, it must be given". The slot of
// the setting must hold the default, as in a SettingsCatalog.
std::string describe_default(const Setting& setting);
// Returns when the setting has an effect, "optimizer.type is lion"; "" when it always has one.
std::string describe_use(const Setting& setting);

}  // namespace lmtrain
