// A run's clock: what is done of it, and durations in its unit.
#include "schedule/run_clock.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace lmtrain {
namespace {

using Unit = TrainingDuration::Unit;

// A step is 512 tokens, an epoch 2048, the run 100 steps.
constexpr RunClock kInSteps{.total = 100, .tokens_per_step = 512, .tokens_per_epoch = 2048};
constexpr RunClock kInTokens{
    .total = 51'200, .counts_steps = false, .tokens_per_step = 512, .tokens_per_epoch = 2048};

TEST(RunClock, DoneIsInTheUnitOfTheRun) {
  EXPECT_EQ(kInSteps.done(), 0);
  EXPECT_EQ(kInSteps.after(25, 12'700).done(), 25);
  EXPECT_EQ(kInSteps.after(25, 12'700).percent(), 25);
  EXPECT_EQ(kInTokens.after(25, 12'800).done(), 12'800);
  EXPECT_EQ(kInTokens.after(25, 12'800).percent(), 25);
  EXPECT_EQ(kInTokens.after(120, 61'440).percent(), 120);  // the last batch of a run is whole
}

TEST(RunClock, GoesOnWithoutAChangeOfTheRun) {
  const RunClock later = kInTokens.after(2, 1000, 3.5).after(1, 500, 1);
  EXPECT_EQ(later.steps, 3);
  EXPECT_EQ(later.tokens, 1500);
  EXPECT_EQ(later.seconds, 4.5);
  EXPECT_EQ(later.total, kInTokens.total);
  EXPECT_EQ(later.counts_steps, kInTokens.counts_steps);
  EXPECT_EQ(later.tokens_per_step, kInTokens.tokens_per_step);
  EXPECT_EQ(later.tokens_per_epoch, kInTokens.tokens_per_epoch);
}

TEST(RunClock, ResolvesEveryUnit) {
  for (const TrainingDuration& same :
       {TrainingDuration{8, Unit::kSteps}, TrainingDuration{4096, Unit::kTokens},
        TrainingDuration{8, Unit::kPercent}, TrainingDuration{2, Unit::kEpochs}}) {
    EXPECT_EQ(kInSteps.resolve(same), 8) << same.value;
    EXPECT_EQ(kInTokens.resolve(same), 4096) << same.value;
    EXPECT_EQ(kInSteps.after(50, 25'600).resolve(same), 8) << same.value;  // wherever it stands
  }
  EXPECT_EQ(kInSteps.resolve({128, Unit::kTokens}), 0.25);  // also inside a step
}

TEST(RunClock, TimeHasNoPositionInARun) {
  try {
    kInSteps.resolve({90, Unit::kSeconds});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
  }
}

TEST(RunClock, CompletedAreWhole) {
  const RunClock run = kInTokens.after(15, 7680, 30);
  EXPECT_EQ(run.completed({4, Unit::kSteps}), 3);
  EXPECT_EQ(run.completed({7680, Unit::kTokens}), 1);
  EXPECT_EQ(run.completed({5, Unit::kPercent}), 3);
  EXPECT_EQ(run.completed({31, Unit::kSeconds}), 0);
  EXPECT_EQ(run.completed({0.5, Unit::kEpochs}), 7);
  EXPECT_EQ(run.completed({0, Unit::kTokens}), 0);
}

}  // namespace
}  // namespace lmtrain
