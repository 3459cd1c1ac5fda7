// Random restart: which trial goes on, with which bits, and what a kill in each phase changes:
// nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <fstream>

#include "e2e/references.h"
#include "formats/strict_json.h"

namespace lmtrain::testing {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSeed = 1337;

Json four_seeds(const char* vary = "all") {
  // The first 6 of 24 steps of 256 positions; the rate is that of the whole run.
  return {{"seed", kSeed},
          {"train", {{"steps", 24}}},
          {"restart", {{"seeds", 4}, {"tokens", "25%"}, {"vary", vary}}}};
}

Json alone(int64_t seed, const char* vary = "all") {
  Json changes = {{"seed", seed}, {"train", {{"steps", 24}}}};
  if (std::string(vary) == "init") changes["data"] = {{"seed", kSeed}};
  return changes;
}

RunDir trial(const RunDir& run, int64_t seed) {
  return RunDir(run.folder() / "trials" / ("seed_" + std::to_string(seed)));
}

double last_eval_loss(const RunDir& run) {
  double loss = NAN;
  for (const Json& line : run.metrics()) {
    if (line.contains("eval_loss")) loss = line.at("eval_loss");
  }
  return loss;
}

int64_t best_seed(const RunDir& run) {
  int64_t best = kSeed;
  for (int64_t seed = kSeed; seed < kSeed + 4; ++seed) {
    if (last_eval_loss(trial(run, seed)) < last_eval_loss(trial(run, best))) best = seed;
  }
  return best;
}

class Restart : public ::testing::TestWithParam<const char*> {};

TEST_P(Restart, TheBestGoesOnAsIfAlone) {
  const Reference& run = reference(four_seeds(GetParam()));
  const int64_t seed = best_seed(run.run);
  const Reference& expected = reference(alone(seed, GetParam()));
  EXPECT_EQ(difference(run.run, expected.run), "");
  EXPECT_EQ(run.run.state(24).at("seed"), seed);
  // Another seed has other bits.
  const Reference& other = reference(alone(seed == kSeed ? kSeed + 1 : kSeed, GetParam()));
  EXPECT_NE(difference(run.run, other.run), "");

  EXPECT_EQ(run.run.events("restart_trial").size(), 4U);
  for (int64_t i = kSeed; i < kSeed + 4; ++i) {
    const RunDir one = trial(run.run, i);
    EXPECT_EQ(one.metrics().back().at("step"), 6) << "ranked at the end";
    EXPECT_TRUE(one.checkpoint_steps().empty());
    EXPECT_EQ(Json::parse(read_text(one.folder() / "trial.json")).at("continued"), i == seed);
  }
  // On the whole run's schedules: the winner's curve begins the run's.
  const auto winner = trial(run.run, seed).metrics();
  const auto whole = run.run.metrics();
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(winner[i].value("loss", Json()), whole[i].value("loss", Json()));
    EXPECT_EQ(winner[i].value("lr", Json()), whole[i].value("lr", Json()));
  }
}

INSTANTIATE_TEST_SUITE_P(Vary, Restart, ::testing::Values("all", "init"),
                         [](const auto& test) { return std::string(test.param); });

TEST(Restart, VaryInitKeepsTheOrderOfData) {
  const auto targets = [](const RunDir& run) {
    std::vector<Json> counts;
    for (const Json& line : run.metrics()) counts.push_back(line.value("tokens", Json()));
    return counts;
  };
  const RunDir& init = reference(four_seeds("init")).run;
  EXPECT_EQ(targets(trial(init, kSeed)), targets(trial(init, kSeed + 1)));
  EXPECT_NE(trial(init, kSeed).metrics()[1].at("loss"),
            trial(init, kSeed + 1).metrics()[1].at("loss"));
}

TEST(Restart, SaysWhatCameOut) {
  const Workspace workspace;
  const RunDir run(workspace / "run");
  const ProcessResult result =
      lmtrain({"train", workspace.config(four_seeds()), "--run-dir", run.path()});
  ASSERT_EQ(result.exit_code, 0) << result;
  for (const std::string part :
       {"seed 1337", "seed 1340", "held-out loss", "goes on", "mean", "standard deviation"}) {
    EXPECT_NE(result.err.find(part), std::string::npos) << part << result;
  }
  EXPECT_EQ(Json::parse(result.out), run.status());
  EXPECT_EQ(run.status().at("state"), "done");
  // Once for the process, and once where the best goes on from its checkpoint.
  for (const char* event : {"start", "resume"}) {
    ASSERT_EQ(run.events(event).size(), 1U) << event;
    EXPECT_EQ(run.events(event)[0].at("precision"), "fp32");
  }
}

TEST(Restart, WithoutHeldOutTextIsExit2) {
  const Workspace workspace;
  Json changes = four_seeds();
  changes["data"] = {{"eval", nullptr}, {"eval_fraction", 0}};
  const RunDir run(workspace / "run");
  const ProcessResult result =
      lmtrain({"train", workspace.config(changes), "--run-dir", run.path()});
  EXPECT_EQ(result.exit_code, 2) << result;
  EXPECT_NE(result.err.find("held-out"), std::string::npos) << result;
  EXPECT_FALSE(fs::exists(run.folder()));
}

// ---- Killed ----

using Reached = std::function<bool(const RunDir&)>;

std::vector<std::pair<std::string, Reached>> phases() {
  const auto event = [](const char* name, size_t count) {
    return [=](const RunDir& run) {
      const std::string text = read_text(run.folder() / "events.jsonl");
      size_t found = 0;
      const std::string quoted = std::string("\"event\":\"") + name + "\"";
      for (size_t at = text.find(quoted); at != std::string::npos; at = text.find(quoted, at + 1))
        ++found;
      return found >= count;
    };
  };
  const auto line = [](int64_t seed, const char* step) {
    return [=](const RunDir& run) {
      return trial(run, seed).has_metrics_line(std::string("{\"step\":") + step + ",");
    };
  };
  return {
      {"the start", event("start", 1)},
      {"the first trial", line(kSeed, "4")},
      {"the end of the first trial", line(kSeed, "6")},
      {"between two trials", event("restart_trial", 1)},
      {"the third trial", line(kSeed + 2, "2")},
      {"the last trial's end", event("restart_trial", 4)},
      {"the choice", [](const RunDir& run) { return fs::exists(run.folder() / "checkpoints"); }},
      {"the first step of the run",
       [](const RunDir& run) { return run.has_metrics_line("{\"step\":7,"); }},
      {"the run", [](const RunDir& run) { return run.has_metrics_line("{\"step\":17,"); }}};
}

TEST(Restart, KilledInEachPhaseEndsAlike) {
  const Reference& expected = reference(four_seeds());
  for (const auto& [name, reached] : phases()) {
    const RunDir run(expected.fresh("killed"));
    LmtrainProcess process({"train", expected.config, "--run-dir", run.path()});
    EXPECT_TRUE(process.wait_until([&, &reached = reached] { return reached(run); })) << name;
    process.send(SIGKILL);
    process.wait();
    const ProcessResult resumed =
        lmtrain({"train", expected.config, "--run-dir", run.path(), "--continue"});
    ASSERT_EQ(resumed.exit_code, 0) << name << resumed;
    EXPECT_EQ(difference(run, expected.run), "") << name;
    for (int64_t seed = kSeed; seed < kSeed + 4; ++seed) {
      EXPECT_EQ(last_eval_loss(trial(run, seed)), last_eval_loss(trial(expected.run, seed)))
          << name;
      EXPECT_TRUE(trial(run, seed).checkpoint_steps().empty()) << name;
    }
  }
}

// The choice was written down and the checkpoint not copied; and copied, the trials' not removed.
TEST(Restart, KilledWhileTheBestIsCopied) {
  const Reference& expected = reference(four_seeds());
  const int64_t seed = best_seed(expected.run);
  const RunDir run(expected.fresh("copied"));
  LmtrainProcess process(
      {"train", expected.config, "--run-dir", run.path(), "--set", "checkpoint.keep=100"});
  ASSERT_TRUE(process.wait_until([&] { return run.has_metrics_line("{\"step\":8,"); }));
  process.send(SIGKILL);
  process.wait();
  fs::create_directories(trial(run, seed).folder() / "checkpoints");
  fs::rename(run.checkpoint(6), trial(run, seed).checkpoint(6));
  for (const int64_t step : run.checkpoint_steps()) fs::remove_all(run.checkpoint(step));
  fs::create_directories(run.folder() / "checkpoints" / ".tmp-step_00000006");
  const ProcessResult resumed = lmtrain({"resume", run.path()});
  ASSERT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(difference(run, expected.run), "");
  EXPECT_TRUE(trial(run, seed).checkpoint_steps().empty());
}

// An error at some call on the run's checkpoints, for good: while the best is copied there, or when
// the run goes on from it. The record of the error leaves the curve and says where the run stands.
TEST(Restart, AFailureAfterTheChoiceTruncatesNothing) {
  Json changes = four_seeds();
  changes["restart"]["seeds"] = 2;
  const Reference& expected = reference(changes);
  const auto train_with_fault = [&](const RunDir& run, long call) {
    ProcessOptions options;
    options.env = {{"LD_PRELOAD", LMTRAIN_FAULT_LIBRARY},
                   {"ASAN_OPTIONS", "verify_asan_link_order=0"},
                   {"LMTRAIN_FAULT_BELOW", run.path() + "/checkpoints"},
                   {"LMTRAIN_FAULT_CALL", std::to_string(call)},
                   {"LMTRAIN_FAULT_TIMES", "-1"},
                   {"LMTRAIN_FAULT_REPORT", (run.path() + "-report")}};
    return lmtrain({"train", expected.config, "--run-dir", run.path()}, options);
  };
  const RunDir counted(expected.fresh("counted"));
  ASSERT_EQ(train_with_fault(counted, 0).exit_code, 0);
  long calls = 0;
  std::ifstream(counted.path() + "-report") >> calls;
  ASSERT_GT(calls, 50);
  // The first calls look for checkpoints as soon as the best has been copied there.
  std::vector<long> failing = {1, 2, 3, 4};
  for (long call = calls / 8; call < calls / 2; call += calls / 12) failing.push_back(call);
  int published = 0;
  for (const long call : failing) {
    SCOPED_TRACE("call " + std::to_string(call));
    const RunDir run(expected.fresh("failed"));
    const ProcessResult failed = train_with_fault(run, call);
    if (failed.exit_code == 0) continue;  // a call that decides nothing
    EXPECT_EQ(failed.exit_code, 5) << failed;
    if (!run.checkpoint_steps().empty()) {
      ++published;
      EXPECT_GE(run.metrics().size(), 7U) << "six updates and an evaluation";
      if (run.status().at("state") == "failed") {  // else that could not be written either
        EXPECT_GE(run.status().at("step"), 6) << failed;
        EXPECT_EQ(run.status().at("checkpoint"), run.newest_checkpoint().string());
      }
    }
    // Where the failure came before the config was written, no run is there to be resumed.
    const bool has_begun = fs::exists(run.folder() / "config.json");
    const ProcessResult resumed =
        has_begun ? lmtrain({"resume", run.path()})
                  : lmtrain({"train", expected.config, "--run-dir", run.path()});
    ASSERT_EQ(resumed.exit_code, 0) << resumed;
    EXPECT_EQ(difference(run, expected.run), "");
  }
  EXPECT_GT(published, 0);
}

TEST(Restart, StoppedInATrialGoesOn) {
  const Reference& expected = reference(four_seeds());
  const RunDir run(expected.fresh("stopped"));
  LmtrainProcess process({"train", expected.config, "--run-dir", run.path()});
  ASSERT_TRUE(
      process.wait_until([&] { return trial(run, kSeed + 1).has_metrics_line("{\"step\":2,"); }));
  process.send(SIGTERM);
  const ProcessResult stopped = process.wait();
  EXPECT_EQ(stopped.exit_code, 128 + SIGTERM) << stopped;
  EXPECT_EQ(run.status().at("state"), "stopped");
  EXPECT_EQ(Json::parse(stopped.out), run.status());
  EXPECT_NE(stopped.err.find("lmtrain resume " + run.path()), std::string::npos) << stopped;
  for (const std::string change : {"train.steps=30", "optimizer.lr=1e-3", "lr_schedule.warmup=3",
                                   "precision=bf16", "eval.tokens=1000"}) {
    const ProcessResult refused = lmtrain({"resume", run.path(), "--set", change});
    EXPECT_EQ(refused.exit_code, 2) << change << refused;
    EXPECT_NE(refused.err.find(change.substr(0, change.find('='))), std::string::npos) << refused;
  }
  const ProcessResult resumed = lmtrain({"resume", run.path()});
  ASSERT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(difference(run, expected.run), "");
}

// ---- Divergence ----

// A rate that makes every run diverge, once the warm-up is over.
Json diverging() {
  return {{"optimizer", {{"lr", 1e30}}},
          {"lr_schedule", {{"warmup", 30}, {"warmup_start", 1e-33}, {"warmup_shape", "linear"}}},
          {"guard", {{"max_skips", 2}}}};
}

TEST(Restart, OnDivergenceTriesTheNextSeedsAndGivesUp) {
  const Workspace workspace;
  Json changes = diverging();
  changes["seed"] = kSeed;
  changes["restart"] = {{"on_divergence", true}, {"max_attempts", 3}, {"tokens", "50%"}};
  const RunDir run(workspace / "run");
  const ProcessResult result =
      lmtrain({"train", workspace.config(changes), "--run-dir", run.path()});
  EXPECT_EQ(result.exit_code, 4) << result;
  EXPECT_NE(result.err.find("attempt 3 of 3"), std::string::npos) << result;
  EXPECT_EQ(run.status().at("state"), "diverged");
  EXPECT_EQ(run.status().at("exit_code"), 4);
  EXPECT_EQ(Json::parse(result.out), run.status());
  const std::vector<Json> trials = run.events("restart_trial");
  ASSERT_EQ(trials.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(trials[i].at("seed"), kSeed + static_cast<int64_t>(i));
    EXPECT_EQ(trials[i].at("attempt"), i);
    EXPECT_FALSE(trial(run, kSeed + static_cast<int64_t>(i)).metrics().empty()) << "its curve";
    EXPECT_TRUE(trial(run, kSeed + static_cast<int64_t>(i)).checkpoint_steps().empty());
  }
  // Without it the first is the last.
  changes.erase("restart");
  const RunDir once(workspace / "once");
  EXPECT_EQ(lmtrain({"train", workspace.config(changes, "once.json"), "--run-dir", once.path()})
                .exit_code,
            4);
  EXPECT_TRUE(once.events("restart_trial").empty());
  // And a resume says so again.
  const ProcessResult resumed = lmtrain({"resume", run.path()});
  EXPECT_EQ(resumed.exit_code, 4) << resumed;
  EXPECT_EQ(Json::parse(resumed.out), run.status());
  EXPECT_EQ(run.status().at("state"), "diverged");
}

TEST(Restart, OnDivergenceChangesNothingForARunThatConverges) {
  Json changes = alone(kSeed);
  changes["restart"] = {{"on_divergence", true}, {"tokens", "25%"}};
  const Reference& with = reference(changes);
  EXPECT_EQ(difference(with.run, reference(alone(kSeed)).run), "");
  EXPECT_EQ(with.run.events("restart_trial").size(), 1U);
}

// A run that began again is of the next seed, also where on_divergence is given up on resume.
TEST(Restart, ARunThatBeganAgainKeepsItsSeed) {
  Json changes = alone(kSeed);
  changes["restart"] = {{"on_divergence", true}, {"tokens", "25%"}};
  const Reference& made = reference(changes);
  const RunDir run(made.fresh("again"));
  fs::create_directories(run.folder());
  fs::copy_file(made.run.folder() / "config.json", run.folder() / "config.json");
  Json failed = Json::parse(read_text(trial(made.run, kSeed).folder() / "trial.json"));
  failed["continued"] = false;
  failed["diverged"] = true;
  failed["reason"] = "for the test";
  failed.erase("checksum");
  fs::create_directories(trial(run, kSeed).folder());
  std::ofstream(trial(run, kSeed).folder() / "trial.json")
      << checked_json_text(nlohmann::json(failed));
  LmtrainProcess process({"resume", run.path()});
  EXPECT_TRUE(process.wait_until([&] { return run.has_metrics_line("{\"step\":12,"); }));
  process.send(SIGTERM);
  const ProcessResult stopped = process.wait();
  ASSERT_EQ(stopped.exit_code, 128 + SIGTERM) << stopped;
  const ProcessResult resumed =
      lmtrain({"resume", run.path(), "--set", "restart.on_divergence=false"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed;
  EXPECT_EQ(run.state(24).at("seed"), kSeed + 1);
  EXPECT_EQ(difference(run, reference(alone(kSeed + 1)).run), "");
}

// The run fails after its trial converged: its curve stays, and the next seed begins.
TEST(Restart, OnDivergenceAfterTheTrial) {
  const Workspace workspace;
  Json changes = diverging();
  changes["seed"] = kSeed;
  changes["lr_schedule"]["warmup_start"] = 3e-33;
  changes["lr_schedule"]["warmup"] = 1;
  changes["lr_schedule"]["type"] = "constant";
  changes["optimizer"]["lr"] = 3e-3;
  changes["guard"] = {{"on_spike", "stop"}, {"window", 8}, {"spike_sigma", 1e-3}};
  changes["restart"] = {{"on_divergence", true}, {"max_attempts", 2}, {"tokens", "5%"}};
  const RunDir run(workspace / "run");
  const ProcessResult result =
      lmtrain({"train", workspace.config(changes), "--run-dir", run.path()});
  EXPECT_EQ(result.exit_code, 4) << result;
  EXPECT_EQ(run.events("restart_trial").size(), 2U);
  for (const int64_t seed : {kSeed, kSeed + 1}) {
    const Json outcome = Json::parse(read_text(trial(run, seed).folder() / "trial.json"));
    EXPECT_TRUE(outcome.at("continued"));
    EXPECT_TRUE(outcome.at("diverged"));
  }
  EXPECT_GT(trial(run, kSeed).metrics().back().at("step"), 2)
      << "the curve of the run, not of the trial";
  // What the last attempt has trained is kept, and may go on as another run.
  EXPECT_GT(run.metrics().back().at("step"), 2);
  ASSERT_FALSE(run.checkpoint_steps().empty());
  EXPECT_NE(result.err.find("its checkpoints are kept"), std::string::npos) << result;
  EXPECT_EQ(run.status().at("step"), run.checkpoint_steps().back());
  const std::string again = lmtrain({"resume", run.path()}).err;
  EXPECT_NE(again.find("its checkpoints are kept"), std::string::npos) << again;
  const ProcessResult branch =
      lmtrain({"resume", run.path(), "--from", std::to_string(run.checkpoint_steps().front()),
               "--run-dir", (workspace / "branch").string(), "--set", "guard.on_spike=off"});
  EXPECT_EQ(branch.exit_code, 0) << branch;
  // With another attempt they go, and it begins.
  const ProcessResult third = lmtrain({"resume", run.path(), "--set", "restart.max_attempts=3"});
  EXPECT_EQ(third.exit_code, 4) << third;
  EXPECT_EQ(run.events("restart_trial").size(), 3U);
}

}  // namespace
}  // namespace lmtrain::testing
