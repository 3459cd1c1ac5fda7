// All settings with their defaults, including those inside lists and objects, for what describes
// them: `config explain`, the JSON Schema and docs/config.md.
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
  // The table of a setting that holds objects; null for others.
  const SettingTable* inside(const Setting& setting) const;
  // In the order of the file, objects' own settings after the one that holds them.
  std::vector<Entry> entries() const;

 private:
  Config config_;
  DataSourceConfig source_;
  OptimizerGroupConfig group_;
  RopeScalingConfig scaling_;
  SettingTable config_table_;
  SettingTable source_table_;
  SettingTable group_table_;
  SettingTable scaling_table_;
};

// The default in words: "0.001", "null: train one", "none, it must be given".
std::string describe_default(const Setting& setting);
// "optimizer.type is lion"; empty when the setting is always used.
std::string describe_use(const Setting& setting);

}  // namespace lmtrain
