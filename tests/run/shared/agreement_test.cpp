// Agreement: the first process's clock, and values in the order of ranks.
#include "run/shared/agreement.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "processes/group.h"

namespace lmtrain {
namespace {

TEST(Agreement, EveryProcessKnowsTheSame) {
  std::mutex mutex;
  std::set<std::pair<double, double>> clocks;
  as_ranks(3, [&](Processes& processes) {
    const double rank = processes.rank();
    Agreement agreement(processes, std::chrono::steady_clock::now());
    EXPECT_EQ(agreement.seconds(), 0);
    agreement.begin_step(/*elapsed=*/100 * (rank + 1));
    const std::vector<double> values = agreement.exchange({rank, 10 + rank}, rank == 2);
    EXPECT_EQ(values, (std::vector<double>{0, 10, 1, 11, 2, 12}));
    EXPECT_TRUE(agreement.has_news());
    const double elapsed = agreement.end_step();
    EXPECT_GE(elapsed, 100);
    EXPECT_LT(elapsed, 200);
    {
      const std::lock_guard lock(mutex);
      clocks.emplace(elapsed, agreement.seconds());
    }
    agreement.exchange({}, false);
    EXPECT_FALSE(agreement.has_news());
    EXPECT_EQ(agreement.signal(), 0);
  });
  EXPECT_EQ(clocks.size(), 1U);
}

TEST(Agreement, OneProcessHasItsOwn) {
  Agreement agreement(only_process(), std::chrono::steady_clock::now());
  agreement.begin_step(5);
  EXPECT_EQ(agreement.exchange({1, 2}, true), (std::vector<double>{1, 2}));
  EXPECT_TRUE(agreement.has_news());
  EXPECT_GE(agreement.end_step(), 5);
}

}  // namespace
}  // namespace lmtrain
