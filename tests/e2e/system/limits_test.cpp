// A machine that runs out of something, and a run that diverges: the exit code, the message, and a
// run folder that is as good as before.
#include <gtest/gtest.h>

#include <fstream>

#include "e2e/references.h"
#include "e2e/small_disk.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

// No folder without its manifest, nothing unfinished, and the run can be evaluated.
void expect_sound(const RunDir& run) {
  EXPECT_FALSE(run.has_unfinished_checkpoint());
  for (const int64_t step : run.checkpoint_steps()) {
    EXPECT_TRUE(fs::exists(run.checkpoint(step) / "manifest.json")) << step;
  }
  const ProcessResult evaluated = lmtrain({"eval", run.path(), "--json"});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated;
}

// Smaller than the weights, larger than everything else.
ProcessOptions small_files() {
  ProcessOptions options;
  options.file_size = 64 << 10;
  return options;
}

TEST(Limits, FileSizeStopsTheRunAtItsSave) {
  const RunDir run = copy_of_stopped_run("file size");
  const std::vector<int64_t> before = run.checkpoint_steps();
  const ProcessResult result = lmtrain({"resume", run.path()}, small_files());
  EXPECT_EQ(result.exit_code, 5) << result;
  EXPECT_NE(result.err.find("model.safetensors"), std::string::npos) << result;
  EXPECT_NE(result.err.find("file size limit"), std::string::npos) << result;
  EXPECT_EQ(run.status().at("state"), "failed");
  EXPECT_EQ(run.status().at("exit_code"), 5);
  EXPECT_EQ(run.checkpoint_steps(), before);
  EXPECT_EQ(run.status().at("checkpoint"), run.checkpoint(before.back()).string());
  EXPECT_EQ(run.events("save_failed").size(), 1U);
  expect_sound(run);

  const ProcessResult resumed = lmtrain({"resume", run.path()});
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(difference(run, reference().run), "");
}

TEST(Limits, OnSaveErrorContinueGoesOnButIsNoSuccess) {
  const RunDir run = copy_of_stopped_run("continue");
  const std::vector<int64_t> before = run.checkpoint_steps();
  const ProcessResult result =
      lmtrain({"resume", run.path(), "--set", "checkpoint.on_save_error=continue"}, small_files());
  EXPECT_EQ(result.exit_code, 5) << result;
  EXPECT_EQ(run.status().at("state"), "failed");
  EXPECT_GE(run.events("save_failed").size(), 5U);
  EXPECT_TRUE(run.has_metrics_line("{\"step\":40,"));
  EXPECT_EQ(run.checkpoint_steps(), before);
  expect_sound(run);

  const ProcessResult resumed = lmtrain({"resume", run.path()});
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(difference(run, reference().run), "");
}

// Memory takes the run's beginning; the disk is full at its first save.
TEST(Limits, DiskTooSmallForACheckpoint) {
  const SmallDisk disk("24m");
  if (!disk.mounted()) GTEST_SKIP() << "no file system can be mounted here";
  const RunDir run(disk / "run");
  LmtrainProcess process(
      {"train", reference().config, "--run-dir", run.path(), "--set", "checkpoint.every=39"});
  ASSERT_TRUE(process.wait_until([&] { return fs::exists(run.folder() / "config.json"); }));
  process.send(SIGSTOP);
  disk.fill("filler", 1 << 18);
  process.send(SIGCONT);
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 5) << result;
  EXPECT_NE(result.err.find("free some space"), std::string::npos) << result;
  EXPECT_NE(result.err.find(run.path()), std::string::npos) << result;
  EXPECT_EQ(run.status().at("state"), "failed");
  EXPECT_TRUE(run.checkpoint_steps().empty());
  EXPECT_FALSE(run.has_unfinished_checkpoint());
  // On a disk with room the run goes on from its beginning.
  const RunDir moved = run.copy(reference().fresh("moved to a larger disk"));
  const ProcessResult resumed = lmtrain({"resume", moved.path()});
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(difference(moved, reference().run), "");
}

// The disk that counts is that of the checkpoints, which may be another one than the run's.
TEST(Limits, CheckpointsMayLieOnALargerDisk) {
  const SmallDisk disk("1m");
  if (!disk.mounted()) GTEST_SKIP() << "no file system can be mounted here";
  const RunDir whole = reference().run;
  const RunDir run(disk / "run");
  fs::create_directories(run.folder());
  for (const char* file : {"config.json", "metrics.jsonl", "events.jsonl", "status.json"})
    fs::copy_file(whole.folder() / file, run.folder() / file);
  const fs::path larger = reference().fresh("checkpoints on a larger disk");
  fs::copy(whole.folder() / "checkpoints", larger, fs::copy_options::recursive);
  fs::create_directory_symlink(larger, run.folder() / "checkpoints");
  disk.fill("filler", 1 << 17);
  const ProcessResult resumed =
      lmtrain({"resume", run.path(), "--set", "train.steps=44", "--set", "log.tensorboard=false"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(run.checkpoint_steps().back(), 44);
}

// Saves fail, and the lines of the logs wait, until there is room again.
TEST(Limits, OnSaveErrorContinueOutlivesAFullDisk) {
  const SmallDisk disk("64m");
  if (!disk.mounted()) GTEST_SKIP() << "no file system can be mounted here";
  const RunDir run(disk / "run");
  LmtrainProcess process({"train", reference().config, "--run-dir", run.path(), "--set",
                          "checkpoint.on_save_error=continue", "--set", "train.steps=400"});
  ASSERT_TRUE(process.wait_until([&] { return !run.checkpoint_steps().empty(); }));
  process.send(SIGSTOP);
  disk.fill("filler");
  process.send(SIGCONT);
  ASSERT_TRUE(process.wait_until(
      [&] { return process.err().find("lines are kept in memory") != std::string::npos; }));
  fs::remove(disk / "filler");
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_NE(result.err.find("the run goes on"), std::string::npos) << result;
  EXPECT_EQ(run.status().at("state"), "done");
  int64_t step = 0;
  for (const Json& line : run.metrics()) {
    if (line.contains("loss")) {
      EXPECT_EQ(line.at("step"), ++step);
    }
  }
  EXPECT_EQ(step, 400);
  EXPECT_EQ(run.events("start").size(), 1U);
}

TEST(Limits, DiskFullFromTheStart) {
  const SmallDisk disk("1m");
  if (!disk.mounted()) GTEST_SKIP() << "no file system can be mounted here";
  {
    std::ofstream filler(disk / "filler", std::ios::binary);
    filler << std::string(2 << 20, 'x');
  }
  for (const bool cache : {false, true}) {
    const Workspace workspace;
    Json changes = Json::object();
    if (cache) changes["data"]["cache_dir"] = (disk / "cache").string();
    const ProcessResult result =
        lmtrain({"train", workspace.config(changes), "--run-dir",
                 cache ? (workspace / "run").string() : (disk / "run").string()});
    EXPECT_EQ(result.exit_code, 5) << result;
    EXPECT_NE(result.err.find("free some space"), std::string::npos) << result;
    if (cache) {
      EXPECT_NE(result.err.find("No space left"), std::string::npos) << result;
    }
  }
}

// ---- Memory ----

rlim_t address_space_at_rest() {
  const Workspace workspace;
  LmtrainProcess process({"train", workspace.config(), "--run-dir", (workspace / "run").string()});
  uint64_t largest_kb = 0;
  while (process.running()) {
    std::ifstream status("/proc/" + std::to_string(process.pid()) + "/status");
    for (std::string word; status >> word;) {
      uint64_t kb = 0;
      if (word == "VmPeak:" && status >> kb) largest_kb = std::max(largest_kb, kb);
    }
    sleep_ms(2);
  }
  return static_cast<rlim_t>(largest_kb) << 10;
}

// At rest as above, and this much more.
ProcessOptions with_memory(rlim_t more) {
  ProcessOptions options;
  options.address_space = address_space_at_rest() + more;
  return options;
}

TEST(Limits, WeightsThatDoNotFitAreExit6) {
  const Workspace workspace;
  const std::string config =
      workspace.config({{"model", {{"hidden_size", 8192}, {"num_hidden_layers", 8}}}});
  const ProcessResult result = lmtrain({"train", config, "--run-dir", (workspace / "run").string()},
                                       with_memory(rlim_t{1} << 30));
  const ProcessResult dry =
      lmtrain({"train", config, "--run-dir", (workspace / "run").string(), "--dry-run"},
              with_memory(rlim_t{1} << 30));
  EXPECT_EQ(dry.exit_code, 6) << dry;
  EXPECT_NE(dry.err.find("out of memory before the first step"), std::string::npos) << dry;
  const ProcessResult plan = lmtrain({"plan", config}, with_memory(rlim_t{1} << 30));
  EXPECT_EQ(plan.exit_code, 0) << plan;
  EXPECT_NE(plan.out.find("out of memory before the first step"), std::string::npos) << plan;
  EXPECT_EQ(result.exit_code, 6) << result;
  for (const char* part : {"out of memory", "weights", "optimizer state", "available",
                           "lower model.hidden_size (now 8192)"})
    EXPECT_NE(result.err.find(part), std::string::npos) << part << result;
  EXPECT_FALSE(fs::exists(workspace / "run/config.json"));
}

TEST(Limits, ARowThatDoesNotFitIsExit6) {
  const Workspace workspace;
  const std::string config = workspace.config(
      {{"sequence",
        {{"max_length", 1 << 20}, {"batching", "concat"}, {"schedule", {{"type", "constant"}}}}},
       {"batch", {{"tokens", 1 << 20}}}});
  const RunDir run(workspace / "run");
  const ProcessResult result =
      lmtrain({"train", config, "--run-dir", run.path()}, with_memory(rlim_t{1} << 30));
  EXPECT_EQ(result.exit_code, 6) << result;
  for (const char* part : {"one row of length 1048576", "activations", "logits", "available"})
    EXPECT_NE(result.err.find(part), std::string::npos) << part << result;
  EXPECT_EQ(run.status().at("state"), "failed");
  EXPECT_EQ(run.status().at("exit_code"), 6);
}

// MicroBatchReduction before the first step, the run goes on; a resume with more memory takes the
// same rows.
TEST(Limits, MicroBatchesThatDoNotFitAreLowered) {
  const Workspace workspace;
  // About 2 GB by the plan; what a run at rest reserves and does not use is far less.
  const std::string config =
      workspace.config({{"batch", {{"tokens", 1 << 18}, {"micro_tokens", 1 << 18}}},
                        {"train", {{"steps", 1}}},
                        {"sequence", {{"min_length", 64}}},
                        {"eval", {{"tokens", 1000}}}});
  const RunDir run(workspace / "run");
  const ProcessResult result =
      lmtrain({"train", config, "--run-dir", run.path()}, with_memory(rlim_t{1} << 29));
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_NE(result.err.find("rows at once instead of 4096"), std::string::npos) << result;
  const std::vector<Json> lowered = run.events("oom_fit");
  ASSERT_GE(lowered.size(), 1U) << result;
  EXPECT_EQ(lowered[0].at("step"), 0);
  const int64_t rows = lowered.back().at("rows");
  EXPECT_LT(rows, 4096);
  EXPECT_EQ(run.state(1).at("micro").at("rows").at("64"), rows);
  const ProcessResult resumed = lmtrain({"resume", run.path(), "--set", "train.steps=2"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(run.state(2).at("micro").at("rows").at("64"), rows);
  EXPECT_EQ(run.events("oom_fit").size(), lowered.size());
}

// ---- Numbers ----

TEST(Limits, DivergedRunIsExit4) {
  const Workspace workspace;
  const std::string config =
      workspace.config({{"optimizer", {{"lr", 1e30}}},
                        {"lr_schedule", {{"warmup", 4}, {"warmup_start", 1e-30}}},
                        {"guard", {{"max_skips", 4}}}});
  const RunDir run(workspace / "run");
  const ProcessResult result = lmtrain({"train", config, "--run-dir", run.path()});
  EXPECT_EQ(result.exit_code, 4) << result;
  EXPECT_NE(result.err.find("lower optimizer.lr"), std::string::npos) << result;
  EXPECT_EQ(run.status().at("state"), "diverged");
  EXPECT_EQ(run.status().at("exit_code"), 4);

  const std::vector<Json> skips = run.events("skip");
  ASSERT_EQ(skips.size(), 4U);
  const int64_t step = skips.front().at("step");
  for (size_t i = 0; i < skips.size(); ++i) {
    EXPECT_EQ(skips[i].at("step"), step) << "a skipped batch is no update";
    EXPECT_EQ(skips[i].at("skipped_batch"), skips.front().at("skipped_batch").get<size_t>() + i);
    EXPECT_NE(skips[i].at("reason").get<std::string>().find("not finite"), std::string::npos);
  }
  // No metrics line for a batch that was skipped; no value that is not finite in those there are.
  int64_t lines = 0;
  for (const Json& line : run.metrics()) {
    if (!line.contains("loss")) continue;
    EXPECT_EQ(line.at("step"), ++lines);
    EXPECT_TRUE(line.at("loss").is_number());
  }
  EXPECT_EQ(lines, step);
}

TEST(Limits, GuardStopEndsAtTheFirst) {
  const Workspace workspace;
  const std::string config =
      workspace.config({{"optimizer", {{"lr", 1e30}}}, {"guard", {{"on_nonfinite", "stop"}}}});
  const RunDir run(workspace / "run");
  const ProcessResult result = lmtrain({"train", config, "--run-dir", run.path()});
  EXPECT_EQ(result.exit_code, 4) << result;
  EXPECT_NE(result.err.find("guard.on_nonfinite"), std::string::npos) << result;
  EXPECT_EQ(run.events("skip").size(), 1U);
  EXPECT_EQ(run.status().at("state"), "diverged");
}

}  // namespace
}  // namespace lmtrain::testing
