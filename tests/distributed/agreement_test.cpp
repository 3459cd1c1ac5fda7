// Agreement: the first process's clock, and values in the order of ranks.
#include "distributed/agreement.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

#include "distributed/group.h"

namespace lmtrain {
namespace {

TEST(Agreement, EveryProcessKnowsTheSame) {
  const std::vector<News> told = {News::kLimits, News::kUnreadRows, News::kNone};
  std::mutex mutex;
  std::set<std::pair<double, double>> clocks;
  as_ranks(3, [&](Processes& processes) {
    const double rank = processes.rank();
    Agreement agreement(processes, std::chrono::steady_clock::now());
    EXPECT_EQ(agreement.seconds(), 0);
    agreement.begin_step(/*elapsed=*/100 * (rank + 1));
    const std::vector<double> values =
        agreement.exchange({rank, 10 + rank}, told.at(processes.rank()));
    EXPECT_EQ(values, (std::vector<double>{0, 10, 1, 11, 2, 12}));
    EXPECT_EQ(agreement.news(), News::kUnreadRows);
    const double elapsed = agreement.end_step();
    EXPECT_GE(elapsed, 100);
    EXPECT_LT(elapsed, 200);
    {
      const std::lock_guard lock(mutex);
      clocks.emplace(elapsed, agreement.seconds());
    }
    agreement.exchange({});
    EXPECT_EQ(agreement.news(), News::kNone);
    EXPECT_EQ(agreement.signal(), 0);
  });
  EXPECT_EQ(clocks.size(), 1U);
}

// Rank 1 is slow, and rank 0 waits for it: the time is in rank 0's clock, and named.
TEST(Agreement, WaitingForASlowProcessIsCountedAndNamed) {
  constexpr double kDelay = 0.2;
  as_ranks(2, [&](Processes& processes) {
    const bool is_slow = processes.rank() == 1;
    Agreement agreement(processes, std::chrono::steady_clock::now());
    EXPECT_FALSE(agreement.balance());
    processes.barrier();
    agreement.begin_step(0);
    processes.barrier();
    if (is_slow) std::this_thread::sleep_for(std::chrono::duration<double>(kDelay));
    agreement.exchange({});
    agreement.end_communication();
    const double first = agreement.end_step();
    const std::optional<StepBalance> balance = agreement.balance();
    ASSERT_TRUE(balance);
    EXPECT_EQ(balance->slowest_rank, 1);
    EXPECT_GE(balance->slowest_seconds, kDelay);
    EXPECT_GT(balance->communication_share, 0);
    EXPECT_LE(balance->communication_share, 1);

    agreement.begin_step(first);
    agreement.exchange({});
    agreement.end_communication();
    EXPECT_GE(agreement.end_step(), kDelay);
  });
}

TEST(Agreement, OneProcessHasItsOwn) {
  Agreement agreement(only_process(), std::chrono::steady_clock::now());
  agreement.begin_step(5);
  EXPECT_EQ(agreement.exchange({1, 2}, News::kLimits), (std::vector<double>{1, 2}));
  EXPECT_EQ(agreement.news(), News::kLimits);
  agreement.end_communication();
  EXPECT_GE(agreement.end_step(), 5);
  EXPECT_FALSE(agreement.balance());
}

}  // namespace
}  // namespace lmtrain
