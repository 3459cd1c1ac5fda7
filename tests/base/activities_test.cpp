#include "base/activities.h"

#include <gtest/gtest.h>

#include <future>

namespace lmtrain {
namespace {

struct Table {
  double now = 0;
  Activities activities{[this] {
    return Activities::Clock::time_point(std::chrono::duration_cast<Activities::Clock::duration>(
        std::chrono::duration<double>(now)));
  }};
};

TEST(Activities, TheInnermostOfAThreadIsWhatItDoes) {
  Table table;
  EXPECT_TRUE(table.activities.running().empty());
  const Activity outer("saving", "", table.activities);
  table.now = 5;
  {
    const Activity inner("syncing", "/a/file", table.activities);
    table.now = 7;
    const std::vector<RunningActivity> running = table.activities.running();
    ASSERT_EQ(running.size(), 1U);
    EXPECT_EQ(running[0].kind, "syncing");
    EXPECT_EQ(running[0].subject, "/a/file");
    EXPECT_EQ(running[0].seconds, 2);
  }
  ASSERT_EQ(table.activities.running().size(), 1U);
  EXPECT_EQ(table.activities.running()[0].kind, "saving");
  EXPECT_EQ(table.activities.running()[0].seconds, 7);
}

TEST(Activities, EachThreadHasItsOwn) {
  Table table;
  const Activity here("waiting for data", "", table.activities);
  std::async(std::launch::async, [&] {
    const Activity there("syncing", "file", table.activities);
    const std::vector<RunningActivity> running = table.activities.running();
    ASSERT_EQ(running.size(), 2U);
    EXPECT_EQ(running[0].kind, "waiting for data");
    EXPECT_EQ(running[1].kind, "syncing");
  }).get();
  EXPECT_EQ(table.activities.running().size(), 1U);
}

TEST(Activities, KnowsTheLongestOfEachKind) {
  Table table;
  for (const double seconds : {3.0, 8.0, 2.0}) {
    const Activity one("evaluating", "", table.activities);
    table.now += seconds;
  }
  const Activity other("syncing", "", table.activities);
  EXPECT_EQ(table.activities.running().back().longest, 0);
  Activity again("evaluating", "", table.activities);
  EXPECT_EQ(table.activities.running().back().longest, 8);
  table.now += 9;
  again.get_further();
  EXPECT_EQ(table.activities.running().back().longest, 9);
  EXPECT_EQ(table.activities.running().back().seconds, 0);
}

}  // namespace
}  // namespace lmtrain
