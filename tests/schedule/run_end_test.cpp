// How a run ends without an error.
#include "schedule/run_end.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

void expect_end(const RunEnd& end, bool done, const std::string& reason, int exit_code) {
  EXPECT_EQ(end.done, done);
  EXPECT_EQ(end.reason, reason);
  EXPECT_EQ(end.exit_code, exit_code);
}

TEST(RunEnd, ItIsDoneWithItsStepsAndItsEvaluation) {
  expect_end(run_end(Stop::kFinished, /*is_evaluated=*/true, 0), true, "done", 0);
  expect_end(run_end(Stop::kTrialEnd, true, 0), true, "done", 0);
  expect_end(run_end(Stop::kEarlyStop, true, 0), true, "early stop", 0);
  // A signal that comes when all is done changes nothing.
  expect_end(run_end(Stop::kFinished, true, 15), true, "done", 0);
}

TEST(RunEnd, ItIsStoppedByASignalOrTheClock) {
  expect_end(run_end(Stop::kSignal, true, 15), false, "signal 15", 143);
  expect_end(run_end(Stop::kFinished, /*is_evaluated=*/false, 2), false, "signal 2", 130);
  expect_end(run_end(Stop::kMaxTime, true, 0), false, "max_time", 75);
}

}  // namespace
}  // namespace lmtrain
