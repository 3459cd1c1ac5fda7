// `resume --from STEP --run-dir NEW`: a new run from a checkpoint of another.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

// Every checkpoint kept, and a rate that stays until the last fifth.
Json plateau() {
  return {{"checkpoint", {{"keep", 100}}},
          {"lr_schedule", {{"type", "wsd"}, {"warmup", 4}, {"decay", "20%"}}}};
}

TEST(Branch, WithoutAChangeEndsAsTheRunItself) {
  const Reference& whole = reference(plateau());
  const auto before = contents(whole.run.folder());
  const RunDir branch(whole.fresh("branch"));
  const ProcessResult result =
      lmtrain({"resume", whole.run.path(), "--from", "12", "--run-dir", branch.path() + "/"});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(difference(branch, whole.run), "");
  EXPECT_EQ(contents(whole.run.folder()), before) << "the old run changed";
  EXPECT_EQ(branch.checkpoint_steps().front(), 12);
  const Json start = branch.events("start").at(0);
  EXPECT_EQ(start.at("precision"), "fp32");
  EXPECT_EQ(start.at("reason"), "branch of " + whole.run.checkpoint(12).string());
  EXPECT_EQ(start.at("step"), 12);
  const Json config = Json::parse(read_text(branch.folder() / "config.json"));
  EXPECT_EQ(config.at("run_dir"), branch.path());
  EXPECT_EQ(config.at("name"), branch.folder().filename().string());
  // It is a run like any other: finished, and resumed as such.
  const ProcessResult again = lmtrain({"resume", branch.path()});
  EXPECT_EQ(again.exit_code, 0) << again;
  EXPECT_NE(again.err.find("is finished"), std::string::npos) << again;
}

// The rate decays from the plateau in the steps after the checkpoint.
TEST(Branch, DecaysFromThePlateau) {
  const Reference& whole = reference(plateau());
  const RunDir branch(whole.fresh("decay"));
  const ProcessResult result =
      lmtrain({"resume", whole.run.path(), "--from", "18", "--run-dir", branch.path(), "--set",
               "train.steps=24", "--set", "lr_schedule.decay=6", "--set", "name=decayed"});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(branch.status().at("step"), 24);
  EXPECT_EQ(Json::parse(read_text(branch.folder() / "config.json")).at("name"), "decayed");
  double peak = 0;
  double last = 0;
  int64_t step = 0;
  for (const Json& line : branch.metrics()) {
    if (!line.contains("lr")) continue;
    EXPECT_EQ(line.at("step"), ++step);
    if (step <= 18) peak = line.at("lr");
    last = line.at("lr");
  }
  EXPECT_EQ(step, 24);
  EXPECT_EQ(peak, 3e-3);
  // One step before the end of 1 - sqrt(p) from p = 0: 3e-4 + 2.7e-3 (1 - sqrt(5/6)).
  EXPECT_NEAR(last, 3e-4 + 2.7e-3 * (1 - std::sqrt(5.0 / 6)), 1e-9);
}

TEST(Branch, OfTheNewestWithoutAStep) {
  const Reference& whole = reference(plateau());
  const RunDir branch(whole.fresh("newest"));
  const ProcessResult result =
      lmtrain({"resume", whole.run.path(), "--run-dir", branch.path(), "--set", "train.steps=45"});
  ASSERT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(branch.checkpoint_steps().front(), 40);
  EXPECT_EQ(branch.status().at("step"), 45);
}

// With the default of three kept, those that a branch needs are there: every 12th step, and where
// the decay begins.
TEST(Branch, CheckpointsToBranchFromAreKept) {
  const Reference& whole =
      reference({{"checkpoint", {{"keep_every", "12 steps"}}},
                 {"lr_schedule", {{"type", "wsd"}, {"warmup", 4}, {"decay", "20%"}}}});
  EXPECT_EQ(whole.run.checkpoint_steps(), (std::vector<int64_t>{12, 24, 32, 36, 39, 40}));
  EXPECT_TRUE(whole.run.state(32).at("kept"));
  EXPECT_FALSE(whole.run.state(39).at("kept"));
  const RunDir branch(whole.fresh("kept"));
  const ProcessResult result = lmtrain({"resume", whole.run.path(), "--from", "32", "--run-dir",
                                        branch.path(), "--set", "train.steps=60"});
  ASSERT_EQ(result.exit_code, 0) << result;
  // The plateau goes on to the later decay, which has a checkpoint of its own.
  for (const Json& line : branch.metrics()) {
    const bool plateau = line.contains("lr") && line.at("step") > 4 && line.at("step") <= 48;
    if (plateau) {
      EXPECT_EQ(line.at("lr"), 3e-3) << line;
    }
  }
  EXPECT_TRUE(branch.state(48).at("kept"));
}

// The commands of docs/cli.md, typed as they stand there.
TEST(Branch, TheDocumentedCommandsWork) {
  const Workspace workspace;
  for (const char* name : {"configs", "data"})
    fs::create_directory_symlink(fs::path(LMTRAIN_SOURCE_DIR) / name, workspace / name);
  std::istringstream page(read_text(LMTRAIN_SOURCE_DIR "/docs/cli.md"));
  ProcessOptions here;
  here.cwd = workspace / "";
  int64_t commands = 0;
  bool fenced = false;
  for (std::string line; std::getline(page, line);) {
    if (line == "```") fenced = !fenced;
    const bool of_branches =
        fenced && line.starts_with("lmtrain ") && line.find("runs/plateau") != std::string::npos;
    if (!of_branches) continue;
    ++commands;
    const std::string typed = "\"$0\" " + line.substr(sizeof("lmtrain"));
    const ProcessResult result =
        Process({"/bin/bash", "-c", typed, lmtrain_binary()}, on_one_core(here)).wait();
    EXPECT_EQ(result.exit_code, 0) << line << result;
  }
  EXPECT_EQ(commands, 3);
  EXPECT_EQ(RunDir(workspace / "runs/short").status().at("step"), 30);
  EXPECT_EQ(RunDir(workspace / "runs/longer").status().at("step"), 90);
}

TEST(Branch, WhatIsWrongIsNamedAndLeavesNoRun) {
  const Reference& whole = reference(plateau());
  struct Case {
    std::vector<std::string> options;
    int exit_code;
    std::string part;
  };
  const std::string other = whole.fresh("refused").string();
  for (const Case& c :
       {Case{{"--from", "13", "--run-dir", other}, 2, "no checkpoint of step 13"},
        Case{{"--from", "12"}, 2, "--run-dir"},
        Case{{"--from", "-1", "--run-dir", other}, 2, "at least 0"},
        Case{{"--from", "12", "--run-dir", whole.run.path()}, 2, "already holds"},
        Case{{"--from", "12", "--run-dir", other, "--set", "seed=5"}, 2, "seed"},
        Case{{"--from", "12", "--run-dir", other, "--set", "restart.max_attempts=9"},
             2,
             "restart.max_attempts cannot be set for a branch"},
        Case{{"--from", "12", "--run-dir", other, "--set", "device=cuda:31"}, 2, "cuda:31"},
        Case{{"--from", "12", "--run-dir", other, "--set", "precision=fp8", "--set", "device=cpu"},
             2,
             "fp8"}}) {
    std::vector<std::string> command = {"resume", whole.run.path()};
    command.insert(command.end(), c.options.begin(), c.options.end());
    const ProcessResult result = lmtrain(command);
    EXPECT_EQ(result.exit_code, c.exit_code) << result;
    EXPECT_NE(result.err.find(c.part), std::string::npos) << result;
    EXPECT_FALSE(fs::exists(other));
  }
  const RunDir damaged = whole.run.copy(whole.fresh("damaged"));
  fs::resize_file(damaged.checkpoint(12) / "model.safetensors", 1000);
  const ProcessResult result =
      lmtrain({"resume", damaged.path(), "--from", "12", "--run-dir", other});
  EXPECT_EQ(result.exit_code, 3) << result;
  EXPECT_FALSE(fs::exists(other));
}

}  // namespace
}  // namespace lmtrain::testing
