// Processes that start in one folder at once: one trains, the others end with exit code 2, and
// those change nothing.
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>

#include "base/file.h"
#include "e2e/references.h"
#include "formats/strict_json.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSeed = 1337;

// Two trials of 3 of 12 steps, whose checkpoints all stay.
Json two_seeds() {
  return {{"seed", kSeed},
          {"train", {{"steps", 12}}},
          {"checkpoint", {{"keep", 100}}},
          {"restart", {{"seeds", 2}, {"tokens", "25%"}}}};
}

RunDir trial(const RunDir& run, int64_t seed) {
  return RunDir(run.folder() / "trials" / ("seed_" + std::to_string(seed)));
}

Json result_of(const RunDir& run, int64_t seed) {
  return Json::parse(read_text(trial(run, seed).folder() / "trial.json"));
}

// As often as LMTRAIN_STARTS says, else twice.
TEST(Simultaneous, EightStartsEndAsOneAlone) {
  const Reference& alone = reference(two_seeds());
  const char* more = std::getenv("LMTRAIN_STARTS");
  const int rounds = more != nullptr ? std::atoi(more) : 2;
  for (int round = 0; round < rounds; ++round) {
    const RunDir run(alone.fresh("eight"));
    std::deque<LmtrainProcess> processes;
    for (int i = 0; i < 8; ++i) {
      std::vector<std::string> command = {"train", alone.config, "--run-dir", run.path()};
      if (i % 2 == 1) command.emplace_back("--continue");
      processes.emplace_back(command);
    }
    int trained = 0;
    for (LmtrainProcess& process : processes) {
      const ProcessResult result = process.wait();
      // --continue of a run that was finished before it looked says so.
      const bool is_late = result.err.find("is finished") != std::string::npos;
      if (result.exit_code == 0 && !is_late) ++trained;
      if (result.exit_code != 0) {
        EXPECT_EQ(result.exit_code, 2) << result;
      }
    }
    EXPECT_EQ(trained, 1);
    EXPECT_EQ(difference(run, alone.run), "");
    EXPECT_EQ(run.events("restart_trial").size(), 2U);
    for (const int64_t seed : {kSeed, kSeed + 1})
      EXPECT_EQ(result_of(run, seed), result_of(alone.run, seed));
  }
}

// The second start has found no run in the folder, and waits for the data. When it goes on, the
// first has trained all trials and holds the lock. To choose among them is the first one's work.
// With `refuses` the file system does not let the second start look at the result of a trial.
void expect_refused_start(bool refuses) {
  const Reference& alone = reference(two_seeds());
  const int64_t best = result_of(alone.run, kSeed).at("continued") == true ? kSeed : kSeed + 1;
  const RunDir trained = alone.run.copy(alone.fresh("trained"));
  fs::create_directories(trial(trained, best).folder() / "checkpoints");
  fs::rename(trained.checkpoint(3), trial(trained, best).checkpoint(3));
  fs::remove_all(trained.folder() / "checkpoints");
  fs::remove(trained.folder() / "metrics.jsonl");
  Json result = result_of(trained, best);
  result["continued"] = false;
  result.erase("checksum");
  replace_file(trial(trained, best).folder() / "trial.json",
               checked_json_text(nlohmann::json(result)));

  const fs::path cache = alone.fresh("cache");
  fs::create_directories(cache / "locks");
  std::deque<FileLock> locks;
  for (const auto& entry : fs::directory_iterator(alone.workspace / "cache/locks")) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("shards-")) continue;
    ASSERT_TRUE(locks.emplace_back().try_acquire(cache / "locks" / name));
  }
  ASSERT_FALSE(locks.empty());
  const RunDir run(alone.fresh("run"));
  ProcessOptions options;
  if (refuses) {
    options.env = {{"LD_PRELOAD", LMTRAIN_FAULT_LIBRARY},
                   {"ASAN_OPTIONS", "verify_asan_link_order=0"},
                   {"LMTRAIN_FAULT_BELOW", (trial(run, kSeed).folder() / "trial.json").string()},
                   {"LMTRAIN_FAULT_CALL", "1"},
                   {"LMTRAIN_FAULT_TIMES", "-1"}};
  }
  LmtrainProcess second({"train", alone.config, "--run-dir", run.path(), "--set",
                         "data.cache_dir=\"" + cache.string() + "\""},
                        options);
  ASSERT_TRUE(second.wait_until(
      [&] { return second.err().find("waiting for another process") != std::string::npos; }));
  trained.copy(run.folder());
  const auto before = contents(run.folder());
  {
    FileLock first;
    ASSERT_TRUE(first.try_acquire(run.folder() / ".lock"));
    locks.clear();
    const ProcessResult refused = second.wait();
    EXPECT_EQ(refused.exit_code, 2) << refused;
    EXPECT_NE(refused.err.find("locked by another lmtrain"), std::string::npos) << refused;
    EXPECT_EQ(contents(run.folder()), before);
  }
  const ProcessResult resumed = lmtrain({"resume", run.path()});
  EXPECT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(difference(run, alone.run), "");
}

TEST(Simultaneous, ARefusedStartChangesNothing) { expect_refused_start(/*refuses=*/false); }

// Nothing that the first does with its files can be an error of the second: exit code 2, never 5.
TEST(Simultaneous, ARefusedStartLooksAtNothing) { expect_refused_start(/*refuses=*/true); }

}  // namespace
}  // namespace lmtrain::testing
