#include "device/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "device/torch_headers.h"

namespace lmtrain {
namespace {

TEST(WorkQueue, EveryTaskIsTakenOnceInOrder) {
  for (const int64_t count : {0, 1, 7, 64, 1000}) {
    for (const int64_t least : {1, 4}) {
      for (const int64_t together : {least, 3 * least}) {
        WorkQueue work(count);
        int64_t taken = 0, last = count + 1;
        while (const Tasks tasks = work.take_some(least, together)) {
          EXPECT_EQ(tasks.begin, taken);
          const int64_t size = tasks.end - tasks.begin;
          EXPECT_TRUE(size >= least || tasks.end == count);
          EXPECT_TRUE(size < together || size % together == 0 || tasks.end == count);
          EXPECT_LE(size, last) << "more at the end than before";
          taken = tasks.end;
          last = std::max(size, least);
        }
        EXPECT_EQ(taken, count);
        EXPECT_FALSE(work.take_one());
      }
    }
  }
}

TEST(WorkQueue, ThreadsTakeEveryTaskOnce) {
  std::vector<int> times(10'000);
  parallel_for_queued(static_cast<int64_t>(times.size()), 3, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++times[static_cast<size_t>(i)];
  });
  EXPECT_EQ(times, std::vector<int>(times.size(), 1));
}

// A static half each would wait for ever.
TEST(WorkQueue, WhatASlowThreadLeavesIsTakenByTheOthers) {
  if (at::get_num_threads() < 2) GTEST_SKIP() << "one thread";
  constexpr int64_t kCount = 1000;
  std::atomic<int64_t> done = 0;
  WorkQueue work(kCount);
  work.run(1, [&] {
    while (const Tasks task = work.take_one()) {
      // Whoever takes the first task keeps it until the others have done the rest.
      while (task.begin == 0 && done < kCount - 1) std::this_thread::yield();
      ++done;
    }
  });
  EXPECT_EQ(done, kCount);
}

TEST(WorkQueue, AnErrorOfATaskIsThrown) {
  EXPECT_THROW(parallel_for_queued(100, 1,
                                   [](int64_t begin, int64_t end) {
                                     if (begin <= 50 && 50 < end) throw std::out_of_range("50");
                                   }),
               std::out_of_range);
}

}  // namespace
}  // namespace lmtrain
