// What ruins a run without being wrong by itself is said before the first step, by train, its dry
// run and plan alike, or ends the run.
#include <gtest/gtest.h>

#include "base/machine.h"
#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Warnings, AreThoseOfThePlanTheDryRunAndTheRun) {
  const Workspace workspace;
  const std::string text =
      workspace.write("little.txt", "the same few words, again and again, for a test of passes.\n");
  const std::string config =
      workspace.config({{"data", {{"train", {"data/sample", {{"path", text}, {"weight", 40}}}}}},
                        {"train", {{"steps", 60}}},
                        {"checkpoint", {{"every", "500 steps"}}},
                        {"lr_schedule", {{"warmup", "100 steps"}}}});
  const RunDir run(workspace / "run");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"plan", config},
        std::vector<std::string>{"plan", config, "--json"},
        std::vector<std::string>{"train", config, "--dry-run"},
        std::vector<std::string>{"train", config, "--run-dir", run.path()}}) {
    const ProcessResult result = lmtrain(command);
    EXPECT_EQ(result.exit_code, 0) << result;
    for (const std::string& part :
         {std::string("warning: train.steps 60 goes over /data/train/1 (\"") + text,
          std::string("warning: lr_schedule.warmup 100 steps is as long as the run"),
          std::string("warning: checkpoint.every 500 steps is longer than the run")})
      EXPECT_TRUE(contains(result.err, part)) << part << result;
    if (command.back() == "--json") {
      EXPECT_EQ(Json::parse(result.out).at("warnings").size(), 3U) << result.out;
    }
  }
  const ProcessResult quiet = lmtrain({"plan", workspace.config(), "--json"});
  EXPECT_EQ(Json::parse(quiet.out).at("warnings").size(), 0U) << quiet.out;
}

// Weight 10 counts for nothing where an entry before it claims the files.
TEST(Warnings, ASourceWithoutAFileOfItsOwnIsRefused) {
  const Workspace workspace;
  const std::string config = workspace.config(
      {{"data",
        {{"train", {"data/sample", {{"path", "data/sample/bread.txt"}, {"weight", 10}}}}}}});
  for (const std::string command : {"train", "plan", "prepare"}) {
    const ProcessResult result = lmtrain({command, config});
    EXPECT_EQ(result.exit_code, 2) << result;
    for (const std::string part : {"/data/train/1 (", "weight 10", "/data/train/0 (", "bread.txt"})
      EXPECT_TRUE(contains(result.err, part)) << part << result;
  }
}

TEST(Warnings, ARateThatRisesWhenTheRunIsMadeLonger) {
  const RunDir run = reference().run.copy(reference().fresh("longer"));
  const ProcessResult longer = lmtrain({"resume", run.path(), "--set", "train.steps=80"});
  ASSERT_EQ(longer.exit_code, 0) << longer;
  // From the floor, 3e-4, to half of the longer cosine; and that is what metrics.jsonl has.
  double rate = 0;
  for (const Json& line : run.metrics())
    if (line.value("step", 0) == 41 && line.contains("lr")) rate = line.at("lr");
  EXPECT_GT(rate, 1.6e-3);
  EXPECT_TRUE(
      contains(longer.err, "warning: the learning rate rises at step 41 from 0.0003 to 0.0016"))
      << rate << longer;
  // A plateau goes on as it was.
  const Reference& plateau = reference(
      {{"lr_schedule", {{"type", "wsd"}, {"decay", "20%"}}}, {"checkpoint", {{"keep", 100}}}});
  for (const auto& [step, warned] : {std::pair{"30", false}, std::pair{"39", true}}) {
    const ProcessResult branch =
        lmtrain({"resume", plateau.run.path(), "--from", step, "--run-dir",
                 plateau.fresh("branch").string(), "--set", "train.steps=60"});
    ASSERT_EQ(branch.exit_code, 0) << branch;
    EXPECT_EQ(contains(branch.err, "the learning rate rises"), warned) << step << branch;
  }
}

// The number decides how sums are rounded, so it stays as it was given.
TEST(Warnings, MoreThreadsThanProcessors) {
  const Workspace workspace;
  const std::string config = workspace.config();
  const int too_many = available_processors() + 1;
  for (const int threads : {too_many, 1}) {
    const ProcessResult result =
        lmtrain({"train", config, "--dry-run", "--set", str("threads=", threads)});
    EXPECT_EQ(contains(result.err, str(too_many, " threads share")), threads > 1) << result;
  }
}

TEST(Warnings, OfLibtorchAreLinesOfTheLog) {
  const Workspace workspace;
  const RunDir run(workspace / "run");
  ProcessOptions options;
  options.env["ATEN_CPU_CAPABILITY"] = "none such";
  const ProcessResult result = lmtrain(
      {"train", workspace.config(), "--run-dir", run.path(), "--set", "train.steps=1"}, options);
  EXPECT_EQ(result.exit_code, 0) << result;
  const std::string line = "ignoring invalid value for ATEN_CPU_CAPABILITY: none such";
  EXPECT_TRUE(contains(result.err, "warning: libtorch, ")) << result;
  EXPECT_TRUE(contains(result.err, line)) << result;
  EXPECT_TRUE(contains(read_text(run.folder() / "train.log"), line));
}

// torchrun would begin a run again that has ended by its time.
TEST(Warnings, ATimeUnderALauncherThatRestarts) {
  const Workspace workspace;
  const std::string config = workspace.config();
  for (const auto& [restarts, is_warned] : {std::pair{"3", true}, {"0", false}}) {
    ProcessOptions options;
    options.env["TORCHELASTIC_MAX_RESTARTS"] = restarts;
    const ProcessResult result =
        lmtrain({"train", config, "--dry-run", "--set", "train.max_time=60"}, options);
    EXPECT_EQ(result.exit_code, 0) << result;
    EXPECT_EQ(contains(result.err, "--max-restarts 0"), is_warned) << result;
  }
}

TEST(Warnings, ABranchFromBeyondItsNewLength) {
  const Workspace workspace;
  const ProcessResult branch =
      lmtrain({"resume", reference().run.path(), "--run-dir", (workspace / "branch").string(),
               "--set", "train.steps=20"});
  EXPECT_EQ(branch.exit_code, 0) << branch;
  EXPECT_TRUE(contains(branch.err, "more than its new length")) << branch;
  EXPECT_EQ(RunDir(workspace / "branch").metrics().back().at("step"), 40);
}

// Guard off, and the numbers are lost: not `done`, not exit code 0.
TEST(Warnings, ARunWithoutAGuardWhoseWeightsAreLostIsNotDone) {
  const Workspace workspace;
  const std::string config = workspace.config({{"optimizer", {{"lr", 1e30}}},
                                               {"guard", {{"on_nonfinite", "off"}}},
                                               {"train", {{"steps", 12}}},
                                               {"eval", {{"every", "50%"}}}});
  const RunDir run(workspace / "run");
  const ProcessResult result = lmtrain({"train", config, "--run-dir", run.path()});
  EXPECT_EQ(result.exit_code, 4) << result;
  EXPECT_TRUE(contains(result.err, "not finite")) << result;
  EXPECT_TRUE(contains(result.err, "guard.on_nonfinite is \"off\"")) << result;
  EXPECT_EQ(run.status().at("state"), "diverged");
}

}  // namespace
}  // namespace lmtrain::testing
