// A run that ends early because its held-out loss does not fall: it is done, ends at the same step
// with the same bits whatever has interrupted it, and can be trained on.
#include <gtest/gtest.h>

#include <csignal>

#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

// No evaluation lowers the loss by so much: the run ends at its third after the first.
Json impatient() {
  return {{"eval", {{"every", "5 steps"}, {"early_stop", {{"patience", 3}, {"min_delta", 100}}}}}};
}

TEST(EarlyStop, TheRunIsDoneAndSaysWhy) {
  const Reference& expected = reference(impatient());
  const RunDir run(expected.fresh("told"));
  const ProcessResult result = lmtrain({"train", expected.config, "--run-dir", run.path()});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(run.status().at("state"), "done");
  EXPECT_EQ(run.status().at("step"), 15);
  EXPECT_EQ(run.status().at("exit_code"), 0);
  EXPECT_EQ(run.checkpoint_steps().back(), 15);
  EXPECT_EQ(run.events("end").at(0).at("reason"), "early stop");
  EXPECT_EQ(run.state(15).at("evaluations").at("without_gain"), 3);
  for (const char* part : {"early stop the last 3 evaluations did not lower the held-out loss by "
                           "more than 100 (eval.early_stop)",
                           "--set eval.early_stop=null"})
    EXPECT_NE(result.err.find(part), std::string::npos) << result;
}

TEST(EarlyStop, KilledAndResumedItEndsAtTheSameStep) {
  const Reference& expected = reference(impatient());
  for (const int moment : {1, 7, 11, 14}) {
    const RunDir run = killed_and_resumed(expected, moment);
    EXPECT_EQ(run.status().at("step"), 15) << moment;
    EXPECT_EQ(difference(run, expected.run), "") << moment;
    EXPECT_EQ(run.state(15).at("evaluations"), expected.run.state(15).at("evaluations"));
  }
}

TEST(EarlyStop, AResumeSaysThatItHasEnded) {
  const Reference& expected = reference(impatient());
  const std::vector<std::vector<std::string>> commands = {
      {"resume", expected.run.path()},
      {"train", expected.config, "--run-dir", expected.run.path(), "--continue"}};
  const std::string events = read_text(expected.run.folder() / "events.jsonl");
  for (const std::vector<std::string>& command : commands) {
    const ProcessResult result = lmtrain(command);
    EXPECT_EQ(result.exit_code, 0) << result;
    EXPECT_EQ(Json::parse(result.out).at("state"), "done") << result;
    EXPECT_NE(result.err.find("ended early: the last 3 evaluations"), std::string::npos) << result;
    EXPECT_NE(result.err.find("--set eval.early_stop=null"), std::string::npos) << result;
  }
  EXPECT_EQ(read_text(expected.run.folder() / "events.jsonl"), events);
}

// The run that goes on has the bits of one that never had the setting.
TEST(EarlyStop, ItCanBeTrainedOn) {
  Json patient = impatient();
  patient["eval"].erase("early_stop");
  const Reference& whole = reference(patient);
  const Reference& expected = reference(impatient());
  const RunDir run = expected.run.copy(expected.fresh("on"));
  const ProcessResult result = lmtrain({"resume", run.path(), "--set", "eval.early_stop=null"});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(difference(run, whole.run), "");
  EXPECT_EQ(run.status().at("step"), 40);
}

TEST(EarlyStop, MorePatienceGoesOnAndLessEndsAtTheNextEvaluation) {
  const Reference& expected = reference(impatient());
  const RunDir more = expected.run.copy(expected.fresh("more"));
  ASSERT_EQ(lmtrain({"resume", more.path(), "--set", "eval.early_stop.patience=5"}).exit_code, 0);
  EXPECT_EQ(more.status().at("step"), 25);

  const RunDir less(expected.fresh("less"));
  LmtrainProcess process({"train", expected.config, "--run-dir", less.path()});
  ASSERT_TRUE(process.wait_until([&] { return less.has_metrics_line("{\"step\":6,"); }));
  process.send(SIGTERM);
  const ProcessResult stopped = process.wait();
  if (stopped.exit_code == 0) GTEST_SKIP() << "it had ended before the signal";
  const int64_t step = less.status().at("step");
  ASSERT_EQ(lmtrain({"resume", less.path(), "--set", "eval.early_stop.patience=1"}).exit_code, 0);
  EXPECT_EQ(less.status().at("step"), (step + 4) / 5 * 5);
}

// It is compared with its own evaluations.
TEST(EarlyStop, ABranchCountsFromItsBeginning) {
  const Reference& expected = reference(impatient());
  const std::string branch = expected.fresh("branch").string();
  const ProcessResult result = lmtrain({"resume", expected.run.path(), "--run-dir", branch});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(RunDir(branch).status().at("step"), 30);
}

TEST(EarlyStop, ATrialOfRandomRestartIsTrainedToItsEnd) {
  Json changes = impatient();
  changes["restart"] = {{"seeds", 2}, {"tokens", "50%"}};
  const RunDir& run = reference(changes).run;
  for (const Json& trial : run.events("restart_trial")) EXPECT_EQ(trial.at("trial_step"), 20);
  EXPECT_EQ(run.events("restart_trial").size(), 2U);
  // The run that one of them becomes has had no gain for longer than it waits.
  EXPECT_EQ(run.status().at("step"), 20);
  EXPECT_EQ(run.status().at("state"), "done");
}

}  // namespace
}  // namespace lmtrain::testing
