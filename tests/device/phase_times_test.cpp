#include "device/phase_times.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "device/torch_headers.h"

namespace lmtrain {
namespace {

void phase(const char* name, int milliseconds) {
  RECORD_USER_SCOPE(name);
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

TEST(PhaseTimes, SumsByNameWhileItListens) {
  phase("before", 1);
  const PhaseTimes times(at::kCPU);
  phase("a", 20);
  phase("b", 1);
  phase("a", 20);
  at::ones({4}).sum();  // an operator is no phase
  ASSERT_EQ(times.seconds().size(), 2U);
  EXPECT_GE(times.seconds().at("a"), 0.040);
  EXPECT_GE(times.seconds().at("b"), 0.001);
  EXPECT_LT(times.seconds().at("b"), times.seconds().at("a"));
}

// As autograd does it on a GPU, whose backward has a thread of its own.
TEST(PhaseTimes, ListensToAThreadThatWorksForIt) {
  const PhaseTimes times(at::kCPU);
  const at::ThreadLocalState state;
  std::thread([&state] {
    const at::ThreadLocalStateGuard guard(state);
    phase("there", 1);
  }).join();
  EXPECT_EQ(times.seconds().count("there"), 1U);
}

TEST(PhaseTimes, OneAfterAnother) {
  {
    const PhaseTimes times(at::kCPU);
    phase("a", 1);
    EXPECT_THROW(PhaseTimes(at::kCPU), c10::Error);
  }
  const PhaseTimes times(at::kCPU);
  EXPECT_TRUE(times.seconds().empty());
  phase("b", 1);
  EXPECT_EQ(times.seconds().count("b"), 1U);
}

}  // namespace
}  // namespace lmtrain
