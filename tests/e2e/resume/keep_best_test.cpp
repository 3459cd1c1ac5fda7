// The checkpoints with the lowest held-out loss stay: the same ones after kills, signals and
// resumes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

using Steps = std::vector<int64_t>;

// The held-out loss falls and rises, since the rate is far too high. No checkpoint is due on the
// way.
Json restless(int keep_best) {
  return {{"optimizer", {{"lr", 0.1}}},
          {"lr_schedule", {{"type", "constant"}}},
          {"eval", {{"every", "3 steps"}}},
          {"checkpoint", {{"every", 0}, {"keep", 1}, {"keep_best", keep_best}}}};
}

std::vector<std::pair<double, int64_t>> evaluations_of(const RunDir& run) {
  std::vector<std::pair<double, int64_t>> found;
  for (const Json& line : run.metrics())
    if (line.contains("eval_loss")) found.emplace_back(line.at("eval_loss"), line.at("step"));
  return found;
}

// By the evaluations of a whole run: each new lowest loss was saved, and the last step.
Steps expected_steps(const RunDir& run, size_t keep_best) {
  std::vector<std::pair<double, int64_t>> saved;
  double lowest = INFINITY;
  for (const auto& [loss, step] : evaluations_of(run)) {
    if (loss < lowest || step == 40) saved.emplace_back(loss, step);
    lowest = std::min(lowest, loss);
  }
  std::sort(saved.begin(), saved.end());
  Steps steps = {40};
  for (size_t i = 0; i < std::min(keep_best, saved.size()); ++i)
    if (saved[i].second != 40) steps.push_back(saved[i].second);
  std::sort(steps.begin(), steps.end());
  return steps;
}

TEST(KeepBest, TheLowestAreSavedAndStay) {
  for (const int keep_best : {1, 2, 3}) {
    const Reference& expected = reference(restless(keep_best));
    EXPECT_EQ(expected.run.checkpoint_steps(),
              expected_steps(expected.run, static_cast<size_t>(keep_best)));
  }
  // The settings change no bit.
  EXPECT_EQ(difference(reference(restless(3)).run, reference(restless(0)).run), "");
  EXPECT_EQ(reference(restless(0)).run.checkpoint_steps(), Steps{40});
}

TEST(KeepBest, TheSummaryNamesTheBest) {
  const Reference& expected = reference(restless(2));
  const RunDir run(expected.fresh("summary"));
  const ProcessResult result = lmtrain({"train", expected.config, "--run-dir", run.path()});
  ASSERT_EQ(result.exit_code, 0) << result;
  const std::vector<std::pair<double, int64_t>> all = evaluations_of(run);
  const int64_t best = std::min_element(all.begin(), all.end())->second;
  ASSERT_NE(best, 40) << "the best is not the last";
  EXPECT_NE(result.err.find("best       step " + std::to_string(best) + ", held-out "),
            std::string::npos)
      << result;
  EXPECT_NE(result.err.find(run.checkpoint(best).string()), std::string::npos) << result;
  EXPECT_NE(result.err.find("step " + std::to_string(best) + " is the best (held-out "),
            std::string::npos)
      << result;
  EXPECT_EQ(run.status().at("checkpoint"), run.checkpoint(40).string());
  EXPECT_EQ(run.state(40).at("evaluations").at("lowest").at("step"), best);
}

// A run that learns its few documents by heart: the held-out loss falls, then rises.
const Reference& overfitting() {
  return reference({{"data", {{"train", {"data/sample.jsonl"}}, {"eval", {"data/sample"}}}},
                    {"optimizer", {{"lr", 0.03}}},
                    {"lr_schedule", {{"type", "constant"}}},
                    {"train", {{"steps", 120}}},
                    {"eval", {{"every", "10 steps"}}},
                    {"checkpoint", {{"every", "30 steps"}, {"keep_best", nullptr}}}});
}

double loss_of(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {"eval", "--json"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const ProcessResult result = lmtrain(command);
  EXPECT_EQ(result.exit_code, 0) << result;
  return Json::parse(result.out).at("loss");
}

// By default, without a word about it in the config.
TEST(KeepBest, AfterOverfittingTheRunMeansItsBestCheckpoint) {
  const RunDir& run = overfitting().run;
  const std::vector<std::pair<double, int64_t>> all = evaluations_of(run);
  const auto [lowest, best] = *std::min_element(all.begin(), all.end());
  const double last = all.back().first;
  ASSERT_LT(lowest, last - 0.05) << "it does not overfit";
  EXPECT_EQ(run.checkpoint_steps().front(), best);
  EXPECT_NEAR(loss_of({run.path()}), lowest, 1e-6);
  EXPECT_NEAR(loss_of({run.path(), "--last"}), last, 1e-6);
  EXPECT_NEAR(loss_of({run.path(), "--step", "00000120"}), last, 1e-6);
  const std::string said = "checkpoint step " + std::to_string(best) + " of ";
  const Workspace workspace;
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"eval", run.path()},
           {"generate", run.path(), "--prompt", "a", "--max-tokens", "1"},
           {"export", run.path(), "--format", "hf", "--to", workspace / "out"}}) {
    const ProcessResult result = lmtrain(command);
    EXPECT_EQ(result.exit_code, 0) << result;
    EXPECT_TRUE(result.err.starts_with(said)) << result;
    EXPECT_NE(result.err.find("--last takes the newest, step 120"), std::string::npos) << result;
  }
  EXPECT_EQ(read_text(workspace / "out/model.safetensors"),
            read_text(run.checkpoint(best) / "model.safetensors"));
  // Where a command takes paths alone, the note names them.
  const ProcessResult average =
      lmtrain({"average", run.path(), run.checkpoint(120), "--to", workspace / "mean"});
  EXPECT_EQ(average.exit_code, 0) << average;
  EXPECT_NE(average.err.find(run.checkpoint(best).string() + "; the newest is " +
                             run.checkpoint(120).string()),
            std::string::npos)
      << average;
  // A resume goes on from the newest.
  const RunDir longer = run.copy(overfitting().fresh("longer"));
  const ProcessResult resumed = lmtrain({"resume", longer.path(), "--set", "train.steps=121"});
  EXPECT_NE(resumed.err.find("resuming after step 120"), std::string::npos) << resumed;
}

TEST(KeepBest, WithoutHeldOutTextTheNewestIsTakenAndSaid) {
  const Reference& made = reference({{"data", {{"eval", nullptr}, {"eval_fraction", 0}}},
                                     {"train", {{"steps", 7}}},
                                     {"checkpoint", {{"keep_best", nullptr}}}});
  EXPECT_EQ(made.run.checkpoint_steps(), (Steps{3, 6, 7}));
  const ProcessResult result =
      lmtrain({"generate", made.run.path(), "--prompt", "a", "--max-tokens", "1"});
  EXPECT_TRUE(result.err.starts_with("checkpoint step 7 of ")) << result;
  EXPECT_NE(result.err.find("no evaluation says which is the best"), std::string::npos) << result;
  EXPECT_EQ(result.exit_code, 0) << result;
}

TEST(KeepBest, AfterKillsTheSameStay) {
  const Reference& expected = reference(restless(2));
  for (const int moment : {2, 8, 17, 33}) {
    const RunDir run = killed_and_resumed(expected, moment);
    EXPECT_EQ(difference(run, expected.run), "") << moment;
    EXPECT_EQ(run.checkpoint_steps(), expected.run.checkpoint_steps()) << moment;
    EXPECT_EQ(run.state(40).at("evaluations"), expected.run.state(40).at("evaluations"));
  }
}

// Its checkpoint is saved without the evaluation, which the resume makes. Without it, step 0 would
// be among the best in its place.
TEST(KeepBest, AnEvaluationThatASignalPutsOffCounts) {
  Json changes = restless(4);
  changes["eval"]["every"] = "10 steps";
  changes["data"]["eval"] = {"data/sample", "data/sample.jsonl",
                             "tests/reference/eval/documents"};  // some tens of milliseconds
  const Reference& expected = reference(changes);
  bool hit = false;
  for (int attempt = 0; attempt < 10 && !hit; ++attempt) {
    const RunDir run(expected.fresh("put-off"));
    LmtrainProcess process({"train", expected.config, "--run-dir", run.path()});
    if (!process.wait_until([&] { return run.has_metrics_line("{\"step\":10,"); })) continue;
    process.send(SIGTERM);
    if (process.wait().exit_code == 0) continue;
    const int64_t stopped_at = run.checkpoint_steps().back();
    hit = stopped_at == 10 && run.state(10).at("eval_pending");
    if (!hit) continue;
    const ProcessResult resumed = resume(run);
    ASSERT_EQ(resumed.exit_code, 0) << resumed;
    EXPECT_EQ(difference(run, expected.run), "");
    EXPECT_EQ(run.checkpoint_steps(), expected.run.checkpoint_steps());
  }
  EXPECT_TRUE(hit) << "no attempt hit the evaluation";
}

TEST(KeepBest, LoweredOnAResumeItRemovesTheOthers) {
  const Reference& expected = reference(restless(3));
  const RunDir run = expected.run.copy(expected.fresh("lowered"));
  const ProcessResult resumed =
      lmtrain({"resume", run.path(), "--set", "checkpoint.keep_best=1", "--set", "train.steps=41"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed;
  const std::vector<std::pair<double, int64_t>> all = evaluations_of(run);
  const int64_t best = std::min_element(all.begin(), all.end())->second;
  EXPECT_EQ(run.checkpoint_steps(), (Steps{best, 41}));
}

TEST(KeepBest, ThePlanCountsThem) {
  const Workspace workspace;
  const Json plan = Json::parse(lmtrain({"plan", workspace.config(restless(2)), "--json"}).out);
  EXPECT_EQ(plan.at("checkpoints"), 1);
  EXPECT_EQ(plan.at("best_checkpoints"), 14) << "step 0 and 13 on the way";
  EXPECT_EQ(plan.at("checkpoints_at_once"), 4) << "the newest, two, and one being written";
}

}  // namespace
}  // namespace lmtrain::testing
