// A file system that refuses, a process that is killed and a machine that loses power, at each call
// on a file of a command: the result is the same to the bit; or the exit code is 5, the message has
// the file and the cause, and the same command afterwards gives the same bits. No checkpoint that
// was reported as saved is lost.
//
// A sample of all faults is tried, and a few kills at random moments. LMTRAIN_FAULTS="3/8" tries
// the third of every eight, LMTRAIN_KILLS=N kills N times (scripts/fault_sweep.sh).
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <random>

#include "e2e/faults/scenarios.h"

namespace lmtrain::testing {
namespace {

class Faults : public ::testing::Test {
 protected:
  void sweep(Scenario scenario, size_t sample = 24) {
    scenarios_.sweep(std::move(scenario)).run(sample);
  }
  // The number of the first such call ("kind path") of the command after the call `before`.
  long call_after(const Scenario& scenario, const std::string& wanted, const std::string& before) {
    scenario.begin();
    const std::vector<std::string> calls = scenarios_.server().calls_of(scenario.command);
    auto call = before.empty() ? calls.begin() : std::find(calls.begin(), calls.end(), before);
    call = std::find(call, calls.end(), wanted);
    EXPECT_NE(call, calls.end()) << wanted;
    return call - calls.begin() + 1;
  }

  // The run's files alone, which one thread writes: their calls have the same order each time.
  void watch_run(const Scenario& scenario) {
    const std::filesystem::path folder = scenario.run->folder();
    scenarios_.server().watch({folder}, folder / "events.jsonl");
  }

  FaultScenarios scenarios_;
};

TEST_F(Faults, OfAPreparation) { sweep(scenarios_.preparation()); }
TEST_F(Faults, OfTables) { sweep(scenarios_.tables()); }
TEST_F(Faults, OfTraining) { sweep(scenarios_.train()); }
TEST_F(Faults, OfAResume) { sweep(scenarios_.resume()); }
TEST_F(Faults, OfARandomRestart) { sweep(scenarios_.restart()); }
TEST_F(Faults, OfARollback) { sweep(scenarios_.rollback()); }
TEST_F(Faults, OfABranch) { sweep(scenarios_.branch()); }
TEST_F(Faults, OfAResumeOfWhatIsDone) { sweep(scenarios_.finished(), 12); }
TEST_F(Faults, OfAnEvaluation) { sweep(scenarios_.eval(), 12); }
TEST_F(Faults, OfAGeneration) { sweep(scenarios_.generate(), 12); }

// ---- Kills at random moments ----

TEST_F(Faults, KillsAtRandomMoments) {
  const char* wanted = std::getenv("LMTRAIN_KILLS");
  const char* chosen = std::getenv("LMTRAIN_KILL_SEED");
  const uint64_t seed =
      chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : std::random_device()();
  const std::vector<Scenario> all = {
      scenarios_.preparation(), scenarios_.tables(),   scenarios_.train(), scenarios_.resume(),
      scenarios_.restart(),     scenarios_.rollback(), scenarios_.branch()};
  const int kills = wanted != nullptr ? std::atoi(wanted) : 14;
  const int each = (kills + static_cast<int>(all.size()) - 1) / static_cast<int>(all.size());
  for (const Scenario& scenario : all) scenarios_.sweep(scenario).kill_at_random(each, seed);
}

// ---- Single faults, whatever the sample is ----

// A checkpoint that was reported is there after a loss of power, unless syncs are left out.
TEST_F(Faults, AMissingSyncLosesAReportedCheckpoint) {
  const Scenario train = scenarios_.train();
  FaultServer& server = scenarios_.server();
  watch_run(train);
  const auto lost_at_the_end = [&] {
    train.begin();
    const ProcessResult result = server.run(train.command, {.call = -1, .how = "power"});
    EXPECT_EQ(result.signal, SIGKILL) << result;
    const std::string events = server.report().witness;
    EXPECT_NE(events.find("\"save\""), std::string::npos) << events;
    return lost_checkpoint(*train.run, events);
  };
  EXPECT_EQ(lost_at_the_end(), "");
  server.set("LMTRAIN_FAULT_FSYNC", "ignored");
  EXPECT_NE(lost_at_the_end(), "");
}

// Without held-out text nothing but the save syncs the folder that the metrics lie in.
TEST_F(Faults, TheMetricsOfASavedCheckpointOutliveALossOfPower) {
  const Scenario train = scenarios_.train_without_held_out_text();
  watch_run(train);
  const long call = call_after(train, "create " + (train.run->folder() / "events.jsonl").string(),
                               "rename " + train.run->checkpoint(1).string());
  train.begin();
  const ProcessResult lost = scenarios_.server().run(train.command, {.call = call, .how = "power"});
  EXPECT_EQ(lost.signal, SIGKILL) << lost;
  EXPECT_EQ(train.run->checkpoint_steps(), std::vector<int64_t>{1});
  const ProcessResult again = scenarios_.server().run(train.next_command());
  EXPECT_EQ(again.exit_code, 0) << again;
  EXPECT_EQ(again.err.find("warning: "), again.err.find("warning: no held-out text")) << again;
  EXPECT_EQ(train.difference(again), "");
}

TEST_F(Faults, AWriteThatIsInterruptedForGoodEndsTheRun) {
  const Scenario train = scenarios_.train();
  watch_run(train);
  const std::string model =
      train.run->folder() / "checkpoints/.tmp-step_00000001/model.safetensors";
  const long call = call_after(train, "write " + model, "");
  train.begin();
  const ProcessResult result = scenarios_.server().run(
      train.command, {.call = call, .how = std::to_string(EINTR), .times = -1});
  EXPECT_EQ(result.exit_code, 5) << result;
  EXPECT_EQ(scenarios_.server().report().kind, "write");
  EXPECT_NE(result.err.find(model), std::string::npos) << result;
}

}  // namespace
}  // namespace lmtrain::testing
