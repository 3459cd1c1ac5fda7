#include "base/start_times.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace lmtrain {
namespace {

TEST(StartTimes, PhasesAddUpToTheAgeOfTheProgram) {
  double age = 0.25;
  StartTimes times([&] { return age; });
  times.begin();
  age = 1;
  times.end_phase("device");
  age = 1.5;
  times.end_phase("data");
  age = 2;
  times.end_phase("device");
  age = 4;
  const StartTimes::Phases expected = {
      {"program", 0.25}, {"device", 1.25}, {"data", 0.5}, {"step", 2}};
  EXPECT_EQ(times.finish("step"), expected);
}

TEST(StartTimes, AFirstStepIsReportedOnceAndOnlyWhereMainHasBegun) {
  StartTimes times([] { return 1.0; });
  times.end_phase("device");
  EXPECT_TRUE(times.finish("step").empty());
  times.begin();
  EXPECT_EQ(times.finish("step").size(), 2U);
  times.end_phase("trial");
  EXPECT_TRUE(times.finish("step").empty());
}

TEST(StartTimes, TheAgeOfAProcessGrowsWithTheClock) {
  const double before = process_age();
  EXPECT_GT(before, -1e-9);
  EXPECT_LT(before, 24 * 3600);
  ::usleep(50'000);
  const double after = process_age();
  EXPECT_GE(after - before, 0.05);
  EXPECT_LT(after - before, 30);
}

}  // namespace
}  // namespace lmtrain
