// What is deleted while a run trains: its folder, its lock, its TensorBoard files, and, by the run
// itself, the checkpoint that another process reads.
#include <gtest/gtest.h>

#include <csignal>

#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

// Long enough for the test to do its work beside it.
Json long_run() {
  return {{"train", {{"steps", 100000}}}, {"checkpoint", {{"every", "1 step"}, {"keep", 2}}}};
}

void expect_parts(const ProcessResult& result, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(result.err.find(part), std::string::npos) << part << result;
}

TEST(Deleted, TheRunFolderIsExit5) {
  const Workspace workspace;
  const RunDir run(workspace / "run");
  LmtrainProcess process({"train", workspace.config(long_run()), "--run-dir", run.path()});
  ASSERT_TRUE(process.wait_until([&] { return run.has_metrics_line("{\"step\":8,"); }));
  fs::rename(run.folder(), workspace / "gone");
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 5) << result;
  expect_parts(result, {run.path(), "if it was moved, resume it there"});
  EXPECT_FALSE(fs::exists(run.folder())) << "it was begun anew";
  EXPECT_EQ(result.err.find("go on with"), std::string::npos) << result;
}

// As rm -r leaves it, which removes no folder that a file was written to meanwhile.
TEST(Deleted, TheFilesOfTheRunAreExit5) {
  const Workspace workspace;
  const RunDir run(workspace / "run");
  LmtrainProcess process({"train", workspace.config({{"train", {{"steps", 100000}}}}), "--run-dir",
                          run.path(), "--set", "checkpoint.every=0"});
  ASSERT_TRUE(process.wait_until([&] { return run.has_metrics_line("{\"step\":2,"); }));
  for (const char* name : {"config.json", "config_history", "checkpoints", ".lock"})
    fs::remove_all(run.folder() / name);
  process.send(SIGTERM);
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 5) << result;
  expect_parts(result, {run.path() + "/config.json is gone"});
  EXPECT_EQ(run.status().at("state"), "failed");
}

TEST(Deleted, TheLockLetsNoSecondOneIn) {
  const Workspace workspace;
  const RunDir run(workspace / "run");
  LmtrainProcess process({"train", workspace.config(long_run()), "--run-dir", run.path()});
  ASSERT_TRUE(process.wait_until([&] { return run.has_metrics_line("{\"step\":2,"); }));
  ASSERT_TRUE(fs::remove(run.folder() / ".lock"));
  const ProcessResult second = lmtrain({"resume", run.path()});
  EXPECT_EQ(second.exit_code, 2) << second;
  expect_parts(second, {"locked by another lmtrain"});
  process.send(SIGTERM);
  EXPECT_EQ(process.wait().exit_code, 128 + SIGTERM);
}

TEST(Deleted, TensorboardDoesNotEndTheRun) {
  const Workspace workspace;
  const RunDir run(workspace / "run");
  LmtrainProcess process({"train", workspace.config(long_run()), "--run-dir", run.path()});
  ASSERT_TRUE(process.wait_until([&] { return run.has_metrics_line("{\"step\":2,"); }));
  std::error_code error;  // a file may be written meanwhile
  do {
    fs::remove_all(run.folder() / "tensorboard", error);
  } while (error);
  ASSERT_TRUE(process.wait_until([&] {
    return process.err().find("was deleted; it begins anew") != std::string::npos;
  })) << process.err();
  process.send(SIGTERM);
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result;
  EXPECT_TRUE(fs::exists(run.folder() / "tensorboard"));
}

// The run saves each step and keeps two checkpoints: the newest is gone a moment later.
TEST(Deleted, ACheckpointThatIsReadIsFollowedByTheNewest) {
  const Workspace workspace;
  const RunDir run(workspace / "run");
  LmtrainProcess process({"train", workspace.config(long_run()), "--run-dir", run.path()});
  ASSERT_TRUE(process.wait_until([&] { return run.has_metrics_line("{\"step\":4,"); }));
  for (int i = 0; i < 3; ++i) {
    const ProcessResult evaluated = lmtrain({"eval", run.path(), "--json"});
    EXPECT_EQ(evaluated.exit_code, 0) << evaluated;
    const RunDir branch(workspace / ("branch-" + std::to_string(i)));
    const ProcessResult branched =
        lmtrain({"resume", run.path(), "--run-dir", branch.path(), "--set", "train.steps=1"});
    EXPECT_EQ(branched.exit_code, 0) << branched;
    EXPECT_EQ(branch.status().at("state"), "done");
  }
  EXPECT_TRUE(process.running());
  process.send(SIGKILL);
  process.wait();
}

}  // namespace
}  // namespace lmtrain::testing
