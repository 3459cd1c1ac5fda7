// A run whose length has changed on its way, as a run with train.time does: it ends where its last
// length says, its rate falls to nothing there, and kills, resumes and several processes change no
// bit of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "e2e/ranks.h"
#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

// 40 steps were planned first, then 30, then 50.
Json replanned(Json changes = Json::object()) {
  changes["train"] = {{"steps", nullptr},
                      {"tokens", 50 * 512},
                      {"planned_tokens", {40 * 512, 30 * 512}},
                      {"replanned_at", {10, 21}}};
  changes["lr_schedule"] = {{"type", "linear"}, {"min_ratio", 0}};
  return changes;
}

std::vector<double> rates_of(const RunDir& run) {
  std::vector<double> rates;
  for (const Json& line : run.metrics()) {
    if (line.contains("lr")) rates.push_back(line.at("lr"));
  }
  return rates;
}

TEST(Replan, TheRateFallsWithoutAJumpToTheLastEnd) {
  const Reference& expected = reference(replanned());
  const int64_t tokens = expected.run.status().at("tokens");
  EXPECT_GE(tokens, 50 * 512);
  EXPECT_LT(tokens, 51 * 512);
  const std::vector<Json> events = expected.run.events("replan");
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].at("batch"), 10);
  EXPECT_EQ(events[0].at("tokens"), 30 * 512);
  EXPECT_EQ(events[0].at("was"), 40 * 512);
  EXPECT_EQ(events[1].at("batch"), 21);
  EXPECT_EQ(events[1].at("tokens"), 50 * 512);

  const std::vector<double> rates = rates_of(expected.run);
  const double peak = *std::max_element(rates.begin(), rates.end());
  double largest_step = 0;
  for (size_t i = 11; i < rates.size(); ++i) {
    EXPECT_LT(rates[i], rates[i - 1]) << i;
    largest_step = std::max(largest_step, rates[i - 1] - rates[i]);
  }
  EXPECT_LT(largest_step, 0.06 * peak);
  EXPECT_LT(rates.back(), 0.05 * peak);
}

TEST(Replan, KilledAndResumedItHasTheSameBits) {
  const Reference& expected = reference(replanned());
  for (const int moment : {3, 10, 14, 30}) {
    const RunDir run = killed_and_resumed(expected, moment);
    EXPECT_EQ(difference(run, expected.run), "") << moment;
  }
}

// Negative control: without the history it is another run.
TEST(Replan, AnotherHistoryIsAnotherRun) {
  const Reference& expected = reference(replanned());
  Json other = replanned();
  other["train"]["replanned_at"] = {10, 22};
  EXPECT_NE(difference(reference(other).run, expected.run), "");
}

// A rollback goes back before the changes, makes them again, and leaves out the same batch.
TEST(Replan, ARollbackGoesBackAcrossIt) {
  Json guarded = replanned(
      {{"sequence", {{"batching", "pad"}, {"schedule", {{"type", "natural"}}}}},
       {"guard",
        {{"on_spike", "rollback"}, {"spike_sigma", 3.0}, {"window", 8}, {"max_skips", 50}}},
       {"checkpoint", {{"every", "1000 steps"}, {"keep_best", 0}}}});
  const Reference& expected = reference(guarded);
  EXPECT_EQ(expected.run.status().at("state"), "done");
  const std::vector<Json> rollbacks = expected.run.events("rollback");
  ASSERT_FALSE(rollbacks.empty());
  EXPECT_TRUE(std::ranges::any_of(rollbacks, [](const Json& event) {
    return event.at("skipped_batch") > 10;
  })) << "after the first change";
  EXPECT_GT(expected.run.events("replan").size(), 2U);
}

// The length that a run has, given again, changes nothing.
TEST(Replan, ItsOwnLengthGivenAgainKeepsTheHistory) {
  const Reference& expected = reference(replanned());
  const RunDir branch(expected.fresh("branch"));
  const int64_t step = expected.run.checkpoint_steps().front();
  const ProcessResult result =
      lmtrain({"resume", expected.run.path(), "--from", std::to_string(step), "--run-dir",
               branch.path(), "--set", "train.tokens=" + std::to_string(50 * 512)});
  ASSERT_EQ(result.exit_code, 0) << result;
  const Json config = Json::parse(read_text(branch.folder() / "config.json"));
  EXPECT_EQ(config.at("train").at("planned_tokens"), Json({40 * 512, 30 * 512}));
  const std::vector<double> rates = rates_of(expected.run);
  const std::vector<double> again = rates_of(branch);
  ASSERT_FALSE(again.empty());
  EXPECT_TRUE(std::equal(again.rbegin(), again.rend(), rates.rbegin()));
}

// A config would tell what never happened.
TEST(Replan, AFinishedRunTakesNoChangeOfItsTraining) {
  const Reference& expected = reference(replanned());
  const RunDir run = expected.run.copy(expected.fresh("finished"));
  const std::string before = read_text(run.folder() / "config.json");
  const ProcessResult result = lmtrain({"resume", run.path(), "--set", "optimizer.lr=0.5"});
  EXPECT_EQ(result.exit_code, 2) << result;
  EXPECT_NE(result.err.find("optimizer.lr cannot change any more"), std::string::npos) << result;
  EXPECT_EQ(read_text(run.folder() / "config.json"), before);
  const ProcessResult longer =
      lmtrain({"resume", run.path(), "--set", "optimizer.lr=0.5", "--set", "train.tokens=26000"});
  EXPECT_EQ(longer.exit_code, 0) << longer;
}

TEST(Replan, TwoProcessesHaveTheBitsOfOne) {
  const Json exact = {{"parallel", {{"sum", "exact"}, {"parts", 4}, {"shard", "optimizer"}}}};
  const Reference& one = reference(replanned(exact));
  const RunDir run(one.fresh("two"));
  expect_all(lmtrain_as(2, {"train", one.config, "--run-dir", run.path()}), 0);
  EXPECT_EQ(difference(run, one.run), "");
}

TEST(Replan, AGivenLengthEndsTheHistory) {
  const Reference& expected = reference(replanned());
  const RunDir run = expected.run.copy(expected.fresh("longer"));
  const ProcessResult result = lmtrain({"resume", run.path(), "--set", "train.tokens=30720"});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_GE(run.status().at("tokens"), 30720);
  const Json config = Json::parse(read_text(run.folder() / "config.json"));
  EXPECT_TRUE(config.at("train").at("planned_tokens").empty());
}

}  // namespace
}  // namespace lmtrain::testing
