#include "config/settings.h"

#include <gtest/gtest.h>

#include <set>

#include "config/describe.h"

namespace lmtrain {
namespace {

TEST(Settings, EachIsDocumentedOnceAndItsDefaultIsAllowed) {
  const SettingsCatalog catalog;
  std::set<std::string> keys;
  for (const SettingsCatalog::Entry& entry : catalog.entries()) {
    const Setting& setting = *entry.setting;
    EXPECT_TRUE(keys.insert(entry.key).second) << entry.key << " twice";
    EXPECT_GT(setting.meaning.size(), 5U) << entry.key;
    EXPECT_TRUE(setting.meaning.ends_with('.')) << entry.key;
    EXPECT_FALSE(describe_allowed(setting).empty()) << entry.key;
    EXPECT_FALSE(describe_default(setting).empty()) << entry.key;
    EXPECT_EQ(setting.units.empty(), setting.kind != SettingKind::kTrainingDuration &&
                                         setting.kind != SettingKind::kTrainingDurations)
        << entry.key;
    if (setting.kind == SettingKind::kChoice) {
      EXPECT_NE(std::find(setting.choices.begin(), setting.choices.end(), value_text(setting)),
                setting.choices.end())
          << entry.key;
    }
    if (const auto* const* slot = std::get_if<double*>(&setting.slot)) {
      EXPECT_TRUE(setting.bounds.contains(**slot)) << entry.key;
    }
    if (const auto* const* slot = std::get_if<int64_t*>(&setting.slot)) {
      EXPECT_TRUE(setting.bounds.contains(static_cast<double>(**slot))) << entry.key;
    }
  }
}

TEST(Settings, ConditionsNameSettingsAndValuesThatExist) {
  Config config;
  const SettingTable table = config_settings(config);
  for (const Setting& setting : table.settings()) {
    if (setting.used_key.empty()) continue;
    const Setting* other = table.find(setting.used_key);
    ASSERT_NE(other, nullptr) << setting.key;
    for (const std::string& value : setting.used_values) {
      if (other->kind != SettingKind::kChoice) continue;
      EXPECT_NE(std::find(other->choices.begin(), other->choices.end(), value),
                other->choices.end())
          << setting.key << ": " << value;
    }
  }
}

TEST(Settings, EverySettingStandsInAKnownSection) {
  Config config;
  const SettingTable table = config_settings(config);
  for (const Setting& setting : table.settings()) {
    const size_t dot = setting.key.rfind('.');
    if (dot == std::string::npos) continue;
    EXPECT_TRUE(table.is_section(setting.key.substr(0, dot))) << setting.key;
  }
}

TEST(NearestKey, LooksHereThenElsewhere) {
  Config config;
  const SettingTable table = config_settings(config);
  EXPECT_EQ(nearest_key("max_lenght", "sequence", table), "sequence.max_length");
  EXPECT_EQ(nearest_key("max_length", "", table), "sequence.max_length");
  EXPECT_EQ(nearest_key("LR", "optimizer", table), "optimizer.lr");
  EXPECT_EQ(nearest_key("warmup_steps", "train", table), "lr_schedule.warmup");
  EXPECT_EQ(nearest_key("hidden_sizes", "", table), "model.hidden_size");
  EXPECT_EQ(nearest_key("qqqqqqqq", "", table), "");
}

}  // namespace
}  // namespace lmtrain
