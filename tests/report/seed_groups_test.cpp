#include "report/seed_groups.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "report/runs_of_test.h"

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

using testing::finished_run;
using Indices = std::vector<size_t>;

nlohmann::json settings(int seed, double lr) {
  return {{"seed", seed},
          {"name", "run" + std::to_string(seed)},
          {"optimizer", {{"lr", lr}}},
          {"data", {{"seed", nullptr}}}};
}

TEST(SeedGroups, RunsThatDifferInTheirSeedAloneAreAGroup) {
  const std::vector<RunRecord> runs = {
      finished_run("a", settings(1, 0.001), 3.0), finished_run("b", settings(1, 0.002), 3.1),
      finished_run("c", settings(2, 0.001), 3.2), finished_run("d", settings(2, 0.002), 3.4),
      finished_run("e", settings(3, 0.002), 9.9)};
  const std::vector<SeedGroup> groups = seed_groups(runs);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].runs, (Indices{0, 2}));
  EXPECT_EQ(groups[1].runs, (Indices{1, 3, 4}));
  EXPECT_EQ(groups[1].seeds, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(groups[0].name, "optimizer.lr 0.001");
  EXPECT_EQ(groups[1].name, "optimizer.lr 0.002");

  const std::vector<PairedDifference> pairs = paired_differences(groups, runs);
  ASSERT_EQ(pairs.size(), 1U);
  EXPECT_EQ(pairs[0].group, 1U);
  EXPECT_EQ(pairs[0].base, 0U);
  EXPECT_EQ(pairs[0].seeds, (std::vector<int64_t>{1, 2}));  // seed 3 has no partner
  ASSERT_EQ(pairs[0].differences.size(), 2U);
  EXPECT_NEAR(pairs[0].differences[0], 0.1, 1e-12);
  EXPECT_NEAR(pairs[0].differences[1], 0.2, 1e-12);
  const MeanAndError value = mean_and_error(pairs[0].differences);
  EXPECT_NEAR(value.mean, 0.15, 1e-12);
  // Standard deviation 0.1 / sqrt(2), over sqrt(2).
  EXPECT_NEAR(value.standard_error, 0.05, 1e-12);
}

TEST(SeedGroups, PlacesLogsAndThreadsDoNotSetApart) {
  nlohmann::json other = settings(2, 0.001);
  other["run_dir"] = "/elsewhere";
  other["threads"] = 7;
  other["log"] = {{"every", 3}};
  other["checkpoint"] = {{"keep", 9}};
  other["card"] = {{"license", "mit"}};
  other["data"]["cache_dir"] = "/cache";
  other["data"]["seed"] = 2;  // as the seed, which is what null means
  EXPECT_EQ(
      seed_groups({finished_run("a", settings(1, 0.001), 3), finished_run("b", other, 4)}).size(),
      1U);
  other["data"]["seed"] = 5;
  EXPECT_EQ(
      seed_groups({finished_run("a", settings(1, 0.001), 3), finished_run("b", other, 4)}).size(),
      2U);
}

TEST(SeedGroups, RunsThatAreNotDoneAreLeftOut) {
  for (const char* state : {"running", "stopped", "diverged", "failed", ""}) {
    RunRecord unfinished = finished_run("b", settings(2, 0.001), 4);
    unfinished.state = state;
    const std::vector<SeedGroup> groups =
        seed_groups({finished_run("a", settings(1, 0.001), 3), unfinished});
    ASSERT_EQ(groups.size(), 1U) << state;
    EXPECT_EQ(groups[0].runs, (Indices{0})) << state;
  }
}

TEST(SeedGroups, RunsWithoutASeedALossOrASecondTimeAreLeftOut) {
  RunRecord no_evaluation = finished_run("a", settings(1, 0.001), 3);
  no_evaluation.evaluations.clear();
  const std::vector<RunRecord> runs = {
      no_evaluation, finished_run("b", settings(2, 0.001), std::nan("")),
      finished_run("c", nlohmann::json::object(), 3), finished_run("d", settings(3, 0.001), 3),
      finished_run("e", settings(3, 0.001), 4)};
  const std::vector<SeedGroup> groups = seed_groups(runs);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].runs, Indices{3});
  EXPECT_TRUE(paired_differences(groups, runs).empty());
}

TEST(SeedGroups, OneValueHasNoStandardError) {
  const MeanAndError one = mean_and_error({2.5});
  EXPECT_EQ(one.mean, 2.5);
  EXPECT_TRUE(std::isnan(one.standard_error));
  EXPECT_TRUE(std::isnan(mean_and_error({}).mean));
}

}  // namespace

}  // namespace lmtrain
