// Processes that write a checkpoint together, when one of them cannot, or is lost meanwhile.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>

#include "e2e/ranks.h"
#include "e2e/references.h"

namespace lmtrain::testing {
namespace {

// A disk that does not answer for these paths as long as the file `busy` is there.
ProcessOptions slow_disk(const std::string& part_of_path, const std::filesystem::path& busy) {
  ProcessOptions options;
  options.env = {{"LD_PRELOAD", LMTRAIN_DELAY_LIBRARY},
                 {"LMTRAIN_DELAY_PATH", part_of_path},
                 {"LMTRAIN_DELAY_WHILE", busy}};
  return options;
}

Json shared_saves() {
  return {{"parallel", {{"sum", "exact"}, {"parts", 4}, {"shard", "optimizer"}}},
          {"checkpoint", {{"every", "5 steps"}}}};
}

// The last rank may write files of so many bytes: enough to try it, and less than a checkpoint has.
ProcessOptions with_small_files(rlim_t bytes) {
  ProcessOptions options;
  options.file_size = bytes;
  return options;
}
constexpr rlim_t kTrialAlone = 60'000, kNotEvenThat = 500;

TEST(SharedSave, AProcessThatCannotWriteFailsTheSaveWithItsName) {
  const Reference& one = reference(shared_saves());
  const RunDir run(one.fresh("failing"));
  Ranks ranks(2, {"train", one.config, "--run-dir", run.path()}, with_small_files(kTrialAlone));
  const std::vector<ProcessResult> results = ranks.wait();
  expect_all(results, 5);
  for (const ProcessResult& result : results) {
    EXPECT_NE(result.err.find("rank 1 ("), std::string::npos) << result;
    EXPECT_NE(result.err.find("/checkpoints/.tmp-step_"), std::string::npos) << result;
    EXPECT_NE(result.err.find(".safetensors: File too large"), std::string::npos) << result;
  }
  EXPECT_EQ(run.events("save_failed").size(), 1U);
  EXPECT_TRUE(run.events("save").empty());
  EXPECT_TRUE(run.checkpoint_steps().empty());
  EXPECT_FALSE(run.has_unfinished_checkpoint());
}

TEST(SharedSave, ARunOutlivesAProcessThatCannotWriteWhereItIsToldTo) {
  const Reference& one = reference(shared_saves());
  const RunDir run(one.fresh("outlives"));
  Ranks ranks(
      2,
      {"train", one.config, "--run-dir", run.path(), "--set", "checkpoint.on_save_error=continue"},
      with_small_files(kTrialAlone));
  const std::vector<ProcessResult> results = ranks.wait();
  expect_all(results, 5);  // since the last save failed too
  EXPECT_EQ(run.metrics().back().at("step"), one.run.metrics().back().at("step"));
  EXPECT_EQ(run.events("save_failed").size(), 8U);
  EXPECT_NE(results[0].err.find("not saved, the run goes on: rank 1 ("), std::string::npos)
      << results[0];
  EXPECT_TRUE(run.checkpoint_steps().empty());
  EXPECT_FALSE(run.has_unfinished_checkpoint());
}

TEST(SharedSave, AProcessThatDoesNotWriteSendsItsTensors) {
  Json weights = shared_saves();
  weights["parallel"]["shard"] = "parameters";
  weights["model"]["activation_checkpointing"] = true;
  for (const Json& changes : {shared_saves(), weights}) {
    const Reference& one = reference(changes);
    const RunDir run(one.fresh("sends"));
    Ranks ranks(4, {"train", one.config, "--run-dir", run.path()}, with_small_files(kNotEvenThat));
    expect_all(ranks.wait(), 0);
    EXPECT_EQ(difference(run, one.run), "") << changes;
  }
}

// Killed while it writes: the older checkpoint is what the run goes on from, to the same bits.
// The run with async and the run without wait at the same time.
TEST(SharedSave, AKillInTheMiddleOfItLosesThatSaveAlone) {
  const Reference& one = reference(shared_saves());
  const std::filesystem::path busy = one.fresh("busy");
  std::ofstream(busy).put('\n');
  struct Killed {
    RunDir run;
    std::vector<std::string> command;
    std::unique_ptr<Ranks> ranks;
  };
  std::vector<Killed> all;
  for (const bool async : {true, false}) {
    const RunDir run(one.fresh("killed"));
    const std::vector<std::string> command = {
        "train",
        one.config,
        "--run-dir",
        run.path(),
        "--continue",
        "--set",
        async ? "checkpoint.async=true" : "checkpoint.async=false",
        "--set",
        "parallel.timeout=6s"};
    auto ranks = std::make_unique<Ranks>(2, command, slow_disk("step_00000010", busy));
    EXPECT_TRUE((*ranks)[0].wait_until([&] {
      // Without async rank 0 waits in no exchange, nothing breaks, and nothing follows the step.
      return run.has_metrics_line(async ? "{\"step\":12," : "{\"step\":10,") &&
             run.has_unfinished_checkpoint();
    }));
    (*ranks)[1].send(SIGKILL);
    all.push_back({run, command, std::move(ranks)});
  }
  for (Killed& killed : all) {
    const ProcessResult first = (*killed.ranks)[0].wait();
    EXPECT_EQ(first.exit_code, 5) << first;
    EXPECT_NE(first.err.find("rank 1 ("), std::string::npos) << first;
    killed.ranks.reset();
    EXPECT_EQ(killed.run.checkpoint_steps(), std::vector<int64_t>{5});
    EXPECT_FALSE(killed.run.has_unfinished_checkpoint());
  }
  std::filesystem::remove(busy);
  for (const Killed& killed : all) {
    expect_all(lmtrain_as(2, killed.command), 0);
    EXPECT_EQ(difference(killed.run, one.run), "");
  }
}

// Rank 0 killed while it waits for the other: what it leaves is removed.
TEST(SharedSave, AKillOfTheFirstLeavesNothingThatCounts) {
  const Reference& one = reference(shared_saves());
  const RunDir run(one.fresh("killed first"));
  const std::vector<std::string> command = {"train", one.config, "--run-dir", run.path(),
                                            "--continue"};
  const std::filesystem::path busy = one.fresh("busy");
  std::ofstream(busy).put('\n');
  const ProcessOptions slow = slow_disk("step_00000010", busy);
  {
    Ranks ranks(2, command, slow);
    EXPECT_TRUE(ranks[0].wait_until(
        [&] { return run.has_metrics_line("{\"step\":12,") && run.has_unfinished_checkpoint(); }));
    ranks[0].send(SIGKILL);
    ranks[0].wait();
    // The other one hangs in its write, while the run goes on without it.
    expect_all(lmtrain_as(2, command), 0);
    EXPECT_EQ(difference(run, one.run), "");
    std::filesystem::remove(busy);
    EXPECT_EQ(ranks[1].wait().exit_code, 5);
  }
  EXPECT_EQ(difference(run, one.run), "");
  EXPECT_FALSE(run.has_unfinished_checkpoint());
}

// Rank 0 serves the store, and is stopped before it has said where the other one writes.
TEST(SharedSave, AStoppedFirstEndsTheOther) {
  const Reference& one = reference(shared_saves());
  const RunDir run(one.fresh("stopped first"));
  const std::filesystem::path busy = one.fresh("busy");
  // Rank 0 syncs this folder when it has made the one of a checkpoint in it.
  Ranks ranks(2,
              {"train", one.config, "--run-dir", run.path(), "--set", "parallel.timeout=6s",
               "--set", "checkpoint.every=20 steps"},
              slow_disk("/checkpoints", busy), /*one=*/0);
  EXPECT_TRUE(ranks[0].wait_until([&] { return run.has_metrics_line("{\"step\":1,"); }));
  std::ofstream(busy).put('\n');
  EXPECT_TRUE(ranks[0].wait_until([&] { return run.has_metrics_line("{\"step\":25,"); }));
  ranks[0].send(SIGSTOP);
  const ProcessResult other = ranks[1].wait();
  EXPECT_EQ(other.exit_code, 5) << other;
  EXPECT_NE(other.err.find("rank 0 ("), std::string::npos) << other;
  std::filesystem::remove(busy);
  ranks[0].send(SIGCONT);
  EXPECT_EQ(ranks[0].wait().exit_code, 5);
  EXPECT_TRUE(run.checkpoint_steps().empty());
}

}  // namespace
}  // namespace lmtrain::testing
