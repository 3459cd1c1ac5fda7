#include "config/catalog.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"

namespace lmtrain {

SettingsCatalog::SettingsCatalog()
    : config_table_(config_settings(config_)),
      source_table_(source_settings(source_)),
      group_table_(group_settings(group_)),
      scaling_table_(rope_scaling_settings(scaling_)),
      early_stop_table_(early_stop_settings(early_stop_)),
      samples_table_(samples_settings(samples_)) {}

const SettingTable* SettingsCatalog::inside(const Setting& setting) const {
  switch (setting.kind) {
    case SettingKind::kSources:
    case SettingKind::kNamedSources:
      return &source_table_;
    case SettingKind::kGroups:
      return &group_table_;
    case SettingKind::kRopeScaling:
      return &scaling_table_;
    case SettingKind::kEarlyStop:
      return &early_stop_table_;
    case SettingKind::kSamples:
      return &samples_table_;
    default:
      return nullptr;
  }
}

std::vector<SettingsCatalog::Entry> SettingsCatalog::entries() const {
  std::vector<Entry> entries;
  std::set<const SettingTable*> described;  // data.eval is as data.train
  for (const Setting& setting : config_table_.settings()) {
    entries.push_back({setting.key, &setting});
    const SettingTable* table = inside(setting);
    if (table == nullptr || !described.insert(table).second) continue;
    const bool is_list =
        setting.kind == SettingKind::kSources || setting.kind == SettingKind::kGroups;
    const char* infix = is_list ? "[]." : ".";
    for (const Setting& field : table->settings()) {
      entries.push_back({setting.key + infix + field.key, &field});
    }
  }
  return entries;
}

std::string describe_default(const Setting& setting) {
  if (setting.required) return "none, it must be given";
  if (!setting.default_note.empty()) return setting.default_note;
  if (std::holds_alternative<std::monostate>(setting.slot)) return "none";
  std::string value = setting_value(setting).dump();
  const bool is_null = value == "null" || value == "\"" + setting.null_name + "\"";
  if (is_null && !setting.null_meaning.empty()) return value + ": " + setting.null_meaning;
  return value;
}

std::string describe_use(const Setting& setting) {
  if (setting.used_key.empty()) return {};
  return setting.used_key + " is " + join(setting.used_values, " or ");
}

}  // namespace lmtrain
