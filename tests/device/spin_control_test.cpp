#include "device/spin_control.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "support/busy_processor.h"

namespace lmtrain {
namespace {

using std::chrono::milliseconds;
using testing::num_threads_of_process;

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Processor time of parallel regions in which one thread waits 5 ms for another.
double seconds_of_waiting(int num_regions) {
  const double begin = processor_seconds();
  for (int i = 0; i < num_regions; ++i) {
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 0) std::this_thread::sleep_for(milliseconds(5));
  }
  return processor_seconds() - begin;
}

TEST(SpinControl, FollowsTheShareOfTimeThatAThreadQueues) {
  EXPECT_FALSE(should_wait_shortly(false, 0));
  EXPECT_FALSE(should_wait_shortly(false, 0.1));
  EXPECT_TRUE(should_wait_shortly(false, 0.5));
  EXPECT_TRUE(should_wait_shortly(true, 0.5));
  EXPECT_TRUE(should_wait_shortly(true, 0.1)) << "it does not go to and fro";
  EXPECT_FALSE(should_wait_shortly(true, 0.01));
}

TEST(SpinControl, ThreadsThatWaitShortlyLeaveTheProcessorToOthers) {
  if (const std::string why = testing::why_waits_stay(); !why.empty()) GTEST_SKIP() << why;
  if (omp_get_num_procs() < 2) GTEST_SKIP() << "one processor: no thread waits for another";
  SpinControl control;
  seconds_of_waiting(1);  // starts the threads
  control.set_short(true);
  ASSERT_TRUE(control.is_short());
  // Long waits spin for some milliseconds of each 5.
  EXPECT_LT(seconds_of_waiting(40), 0.25 * 40 * 5e-3);
}

TEST(SpinControl, AThreadThatQueuesForItsProcessorWaitsShortly) {
  if (const std::string why = testing::why_waits_stay(); !why.empty()) GTEST_SKIP() << why;
  SpinControl control;
  {
    const testing::BusyProcessor busy;
    const auto begin = std::chrono::steady_clock::now();
    while (!control.is_short() &&
           std::chrono::steady_clock::now() - begin < std::chrono::minutes(1))
      control.adjust();
    EXPECT_TRUE(control.is_short());
  }
  control.set_short(false);
}

TEST(SpinControl, ItsThreadsEndWhenWaitsAreLongAgain) {
  if (const std::string why = testing::why_waits_stay(); !why.empty()) GTEST_SKIP() << why;
  seconds_of_waiting(1);
  // Threads of the tests before may still be ending.
  int64_t before = num_threads_of_process();
  for (int same = 0, looks = 0; same < 20 && looks < 1000; ++same, ++looks) {
    std::this_thread::sleep_for(milliseconds(10));
    if (const int64_t now = num_threads_of_process(); now != before) {
      before = now;
      same = 0;
    }
  }
  SpinControl control;
  EXPECT_EQ(num_threads_of_process(), before);
  control.set_short(true);
  EXPECT_GT(num_threads_of_process(), before);
  control.set_short(false);
  EXPECT_FALSE(control.is_short());
  // Those of a team end by themselves.
  for (int i = 0; i < 1000 && num_threads_of_process() > before; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(num_threads_of_process(), before);
}

TEST(SpinControl, TheUserDecides) {
  for (const char* name : {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}) {
    setenv(name, "1", /*overwrite=*/1);
    SpinControl control;
    control.set_short(true);
    EXPECT_FALSE(control.is_short()) << name;
    unsetenv(name);
  }
}

}  // namespace
}  // namespace lmtrain
