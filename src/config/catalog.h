// The catalog has all settings with their defaults, including those inside lists and objects.
// `config explain`, the JSON Schema and docs/config.md are made from it.
#pragma once

#include <string>
#include <vector>

#include "config/settings.h"

namespace lmtrain {

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

// Returns the default in words: "0.001", "null: train one", "none, it must be given". Requires that
// the slot of the setting still holds the default, as it does for the settings of a catalog.
std::string describe_default(const Setting& setting);
// Returns when the setting has an effect, "optimizer.type is lion"; empty when it always has one.
std::string describe_use(const Setting& setting);

}  // namespace lmtrain
