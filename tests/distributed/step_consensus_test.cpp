// StepConsensus: the first process's clock, and values in the order of ranks.
#include "distributed/step_consensus.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

#include "distributed/group.h"

namespace lmtrain {
namespace {

TEST(StepConsensus, EveryProcessKnowsTheSame) {
  const std::vector<StepStatus> told = {StepStatus::kLimits, StepStatus::kUnreadRows,
                                        StepStatus::kNone};
  std::mutex mutex;
  std::set<std::pair<double, double>> clocks;
  as_ranks(3, [&](Processes& processes) {
    const double rank = processes.rank();
    StepConsensus consensus(processes, std::chrono::steady_clock::now());
    EXPECT_EQ(consensus.seconds(), 0);
    consensus.begin_step(/*elapsed=*/100 * (rank + 1));
    const std::vector<double> values =
        consensus.exchange({rank, 10 + rank}, told.at(processes.rank()));
    EXPECT_EQ(values, (std::vector<double>{0, 10, 1, 11, 2, 12}));
    EXPECT_EQ(consensus.status(), StepStatus::kUnreadRows);
    const double elapsed = consensus.end_step();
    EXPECT_GE(elapsed, 100);
    EXPECT_LT(elapsed, 200);
    {
      const std::lock_guard lock(mutex);
      clocks.emplace(elapsed, consensus.seconds());
    }
    consensus.exchange({});
    EXPECT_EQ(consensus.status(), StepStatus::kNone);
    EXPECT_EQ(consensus.signal(), 0);
  });
  EXPECT_EQ(clocks.size(), 1U);
}

// Rank 1 is slow, and rank 0 waits for it: the time is in rank 0's clock, and named.
TEST(StepConsensus, WaitingForASlowProcessIsCountedAndNamed) {
  constexpr double kDelay = 0.2;
  as_ranks(2, [&](Processes& processes) {
    const bool is_slow = processes.rank() == 1;
    StepConsensus consensus(processes, std::chrono::steady_clock::now());
    EXPECT_FALSE(consensus.balance());
    processes.barrier();
    consensus.begin_step(0);
    processes.barrier();
    if (is_slow) std::this_thread::sleep_for(std::chrono::duration<double>(kDelay));
    consensus.exchange({});
    consensus.end_communication();
    const double first = consensus.end_step();
    const std::optional<StepBalance> balance = consensus.balance();
    ASSERT_TRUE(balance);
    EXPECT_EQ(balance->slowest_rank, 1);
    EXPECT_GE(balance->slowest_seconds, kDelay);
    EXPECT_GT(balance->communication_share, 0);
    EXPECT_LE(balance->communication_share, 1);

    consensus.begin_step(first);
    consensus.exchange({});
    consensus.end_communication();
    EXPECT_GE(consensus.end_step(), kDelay);
  });
}

TEST(StepConsensus, OneProcessHasItsOwn) {
  StepConsensus consensus(only_process(), std::chrono::steady_clock::now());
  consensus.begin_step(5);
  EXPECT_EQ(consensus.exchange({1, 2}, StepStatus::kLimits), (std::vector<double>{1, 2}));
  EXPECT_EQ(consensus.status(), StepStatus::kLimits);
  consensus.end_communication();
  EXPECT_GE(consensus.end_step(), 5);
  EXPECT_FALSE(consensus.balance());
}

}  // namespace
}  // namespace lmtrain
