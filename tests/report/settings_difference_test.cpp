#include "report/settings_difference.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lmtrain {
namespace {

using Json = nlohmann::json;

TEST(SettingsDifference, KeysAreDottedAndListsAreOneValue) {
  const FlatSettings flat = flatten_settings(
      Json::parse(R"({"seed":1,"a":{"b":{"c":"x"},"d":[1,{"e":2}]},"n":null,"o":{}})"));
  EXPECT_EQ(flat, (FlatSettings{{"seed", "1"},
                                {"a.b.c", "\"x\""},
                                {"a.d", "[1,{\"e\":2}]"},
                                {"n", "null"},
                                {"o", "{}"}}));
  EXPECT_TRUE(flatten_settings(Json::object()).empty());
  EXPECT_TRUE(flatten_settings(Json(3)).empty());
}

TEST(SettingsDifference, ShowsWhatDiffersOrIsMissing) {
  const std::vector<SettingsRow> rows =
      differing_settings({{{"name", "\"a\""}, {"run_dir", "\"r\""}, {"lr", "1"}, {"same", "0"}},
                          {{"name", "\"b\""}, {"run_dir", "\"s\""}, {"lr", "2"}, {"same", "0"}},
                          {{"name", "\"c\""}, {"lr", "1"}, {"same", "0"}, {"new", "5"}}});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].key, "lr");
  EXPECT_EQ(rows[0].values, (std::vector<std::string>{"1", "2", "1"}));
  EXPECT_EQ(rows[1].key, "new");
  EXPECT_EQ(rows[1].values, (std::vector<std::string>{"", "", "5"}));
}

TEST(SettingsDifference, ARunWithoutSettingsDiffersInNone) {
  EXPECT_TRUE(differing_settings({{{"lr", "1"}}, {}}).empty());
  EXPECT_EQ(differing_settings({{{"lr", "1"}}, {}, {{"lr", "2"}}}).size(), 1U);
  EXPECT_TRUE(differing_settings({}).empty());
}

}  // namespace
}  // namespace lmtrain
