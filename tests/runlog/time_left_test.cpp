#include "runlog/time_left.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

// A step of length 100 has twice the FLOPs of one of length 0.
double flops(int64_t length) { return 100.0 + static_cast<double>(length); }

TEST(TimeLeft, TheFirstOfEachKindCountsOnlyAlone) {
  TimeLeft times(flops, 0);
  EXPECT_EQ(times.batch_seconds(64), 0);
  times.add_batch(64, 9);
  EXPECT_EQ(times.batch_seconds(64), 9);
  for (int i = 0; i < 10; ++i) times.add_batch(64, 2);
  EXPECT_EQ(times.batch_seconds(64), 2);
  times.add_evaluation(5);
  EXPECT_EQ(times.evaluation_seconds(), 5);
  times.add_evaluation(3);
  EXPECT_EQ(times.evaluation_seconds(), 3);
  times.add_evaluation(4);
  EXPECT_EQ(times.evaluation_seconds(), 3.5);
  EXPECT_EQ(times.training_seconds(), 29);
  EXPECT_EQ(times.evaluating_seconds(), 12);
}

TEST(TimeLeft, AdaptsToAMachineThatChanges) {
  TimeLeft times(flops, 0);
  for (int i = 0; i < 1000; ++i) times.add_batch(64, 1);
  for (int i = 0; i < 300; ++i) times.add_batch(64, 3);
  EXPECT_NEAR(times.batch_seconds(64), 3, 0.05);
}

// What plans a run wavers less than what is shown.
TEST(TimeLeft, TheSteadyTimeWeighsAllOfThem) {
  TimeLeft times(flops, 0);
  times.add_batch(64, 100);  // sets things up
  for (int i = 2; i <= 1000; ++i) times.add_batch(64, 1);
  EXPECT_DOUBLE_EQ(times.batch_seconds(64, /*steady=*/true), 1);
  for (int i = 0; i < 20; ++i) times.add_batch(64, 3);
  EXPECT_GT(times.batch_seconds(64), 1.4);
  EXPECT_LT(times.batch_seconds(64, /*steady=*/true), 1.1);
  for (int i = 0; i < 980; ++i) times.add_batch(64, 3);
  EXPECT_NEAR(times.batch_seconds(64, /*steady=*/true), 2.5, 0.01);
}

TEST(TimeLeft, LengthsNotSeenFollowFromTheNearestByTheirFlops) {
  TimeLeft times(flops, 0);
  for (int i = 0; i < 3; ++i) times.add_batch(100, 2);
  EXPECT_DOUBLE_EQ(times.batch_seconds(400), 5);
  for (int i = 0; i < 3; ++i) times.add_batch(200, 6);
  EXPECT_DOUBLE_EQ(times.batch_seconds(400), 10);
  EXPECT_DOUBLE_EQ(times.batch_seconds(100), 2);
  EXPECT_DOUBLE_EQ(times.batch_seconds(50), 1.5);
}

TEST(TimeLeft, EvaluationsBeforeTheFirstFollowFromTheirFlops) {
  TimeLeft times(flops, 800);
  EXPECT_EQ(times.evaluation_seconds(), 0);
  for (int i = 0; i < 3; ++i) times.add_batch(100, 2);
  EXPECT_DOUBLE_EQ(times.evaluation_seconds(), 8);
  times.add_evaluation(7);
  EXPECT_EQ(times.evaluation_seconds(), 7);
}

TEST(TimeLeft, AddsUpWhatIsAhead) {
  TimeLeft times(flops, 0);
  for (int i = 0; i < 3; ++i) {
    times.add_batch(100, 2);
    times.add_evaluation(3);
    times.add_save(0.5);
  }
  EXPECT_DOUBLE_EQ(times.seconds({.training = 20, .evaluations = 2, .saves = 4}), 28);
  times.set_writing(7);  // of the last save
  EXPECT_DOUBLE_EQ(times.seconds({.training = 20, .evaluations = 2, .saves = 4}), 35);
  EXPECT_DOUBLE_EQ(times.saving_seconds(), 1.5);
}

}  // namespace
}  // namespace lmtrain
