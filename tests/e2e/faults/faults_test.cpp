// A file system that refuses, a process that is killed and a machine that loses power, at each call
// on a file of a command: the result is the same to the bit; or the exit code is 5, the message has
// the file and the cause, and the same command afterwards gives the same bits. No checkpoint that
// was reported as saved is lost.
//
// A sample of all faults is tried, and a few kills at random moments. LMTRAIN_FAULTS="3/8" tries
// the third of every eight, LMTRAIN_KILLS=N kills N times (scripts/fault_sweep.sh).
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "e2e/faults/scenarios.h"

namespace lmtrain::testing {
namespace {

class Faults : public ::testing::Test {
 protected:
  void sweep(Scenario scenario, size_t sample = 40) {
    scenarios_.sweep(std::move(scenario)).run(sample);
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
TEST_F(Faults, OfAResumeOfWhatIsDone) { sweep(scenarios_.finished(), 20); }
TEST_F(Faults, OfAnEvaluation) { sweep(scenarios_.eval(), 20); }
TEST_F(Faults, OfAGeneration) { sweep(scenarios_.generate(), 20); }

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

// ---- The layer notices ----

// A checkpoint that was reported is there after a loss of power, unless syncs are left out.
TEST_F(Faults, AMissingSyncLosesAReportedCheckpoint) {
  const Scenario train = scenarios_.train();
  FaultServer& server = scenarios_.server();
  scenarios_.sweep(train);  // watches its files
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

}  // namespace
}  // namespace lmtrain::testing
