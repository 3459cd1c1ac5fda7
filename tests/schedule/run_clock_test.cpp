// A run's clock: what is done of it, and durations in its unit.
#include "schedule/run_clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

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

// A run of 51,200 tokens that has become longer or shorter after 20,000 of them.
TEST(RunClock, AfterAChangeOfLengthItEndsWithTheRun) {
  for (const double end : {100'000.0, 51'200.0, 20'001.0, 30'000.7}) {
    RunClock run = kInTokens;
    run.change = {.tokens = 20'000, .done = 20'000, .end = end};
    const auto at = [&](double tokens) { return run.after(7, tokens); };
    EXPECT_DOUBLE_EQ(at(20'000).done(), 20'000) << "no jump";
    EXPECT_EQ(at(end).done(), run.total);
    EXPECT_EQ(at(end).percent(), 100);
    EXPECT_EQ(at(end).left(), 0);
    EXPECT_LT(at(end - 1).done(), run.total);
    EXPECT_GT(at(end + 1).done(), run.total);
    EXPECT_DOUBLE_EQ(at((20'000 + end) / 2).done(), (20'000 + 51'200) / 2.0);
    EXPECT_EQ(at(30'000).left(), end - 30'000);
    EXPECT_EQ(at(30'000).completed({10'000, Unit::kTokens}), 3) << "tokens stay tokens";
  }
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

// When something that happens every so often falls due.

namespace {

// The steps of a run of `total` steps, 100 tokens and 2 seconds each, after which the event is due.
// An epoch is 1600 tokens.
std::vector<int> due_steps(TrainingDuration every, int first, int total) {
  const RunClock run{.total = static_cast<double>(total), .tokens_per_epoch = 1600};
  const auto at = [&](int step) { return run.after(step, 100.0 * step, 2.0 * step); };
  const Cadence cadence(every);
  std::vector<int> steps;
  for (int step = first; step < total; ++step) {
    if (cadence.due(at(step), at(step + 1))) steps.push_back(step + 1);
  }
  return steps;
}

TEST(Cadence, EveryUnit) {
  const std::vector<int> tens = {10, 20, 30, 40};
  EXPECT_EQ(due_steps({10, TrainingDuration::Unit::kSteps}, 0, 40), tens);
  EXPECT_EQ(due_steps({1000, TrainingDuration::Unit::kTokens}, 0, 40), tens);
  EXPECT_EQ(due_steps({25, TrainingDuration::Unit::kPercent}, 0, 40), tens);
  EXPECT_EQ(due_steps({20, TrainingDuration::Unit::kSeconds}, 0, 40), tens);
}

// 40 steps of 100 tokens over 1600 tokens of text are two epochs and a half.
TEST(Cadence, EpochsAreCountedInTokens) {
  const auto epochs = [](double count) {
    return TrainingDuration{count, TrainingDuration::Unit::kEpochs};
  };
  EXPECT_EQ(due_steps(epochs(1), 0, 40), (std::vector<int>{16, 32}));
  EXPECT_EQ(due_steps(epochs(0.5), 0, 40), (std::vector<int>{8, 16, 24, 32, 40}));
  EXPECT_EQ(due_steps(epochs(0), 0, 40), std::vector<int>{});
}

TEST(Cadence, FallsOnTheStepThatCrosses) {
  EXPECT_EQ(due_steps({250, TrainingDuration::Unit::kTokens}, 0, 10),
            (std::vector<int>{3, 5, 8, 10}));
  // Several in one step are one.
  EXPECT_EQ(due_steps({30, TrainingDuration::Unit::kTokens}, 0, 3), (std::vector<int>{1, 2, 3}));
}

TEST(Cadence, PercentIsNotLostToRounding) {
  for (const int total : {7, 20, 60, 73, 100, 997, 4001}) {
    EXPECT_EQ(due_steps({5, TrainingDuration::Unit::kPercent}, 0, total).size(),
              static_cast<size_t>(std::min(total, 20)))
        << total;
    EXPECT_EQ(due_steps({5, TrainingDuration::Unit::kPercent}, 0, total).back(), total);
  }
}

TEST(Cadence, ZeroIsNever) {
  EXPECT_TRUE(due_steps({0, TrainingDuration::Unit::kSteps}, 0, 100).empty());
  EXPECT_TRUE(due_steps({0, TrainingDuration::Unit::kSeconds}, 0, 100).empty());
}

TEST(Cadence, ResumedRunActsOnTheSameSteps) {
  const TrainingDuration every{7, TrainingDuration::Unit::kPercent};
  const auto whole = due_steps(every, 0, 90);
  for (int resumed = 0; resumed < 90; ++resumed) {
    std::vector<int> after;
    for (const int step : whole) {
      if (step > resumed) after.push_back(step);
    }
    EXPECT_EQ(due_steps(every, resumed, 90), after) << resumed;
  }
}

TEST(Cadence, CountsMultiples) {
  const RunClock before{.total = 140, .steps = 10, .tokens = 1000, .seconds = 20};
  const RunClock after = before.after(21, 1500, 9);
  EXPECT_EQ(Cadence({10, TrainingDuration::Unit::kSteps}).multiples(before, after), 2);
  EXPECT_EQ(Cadence({500, TrainingDuration::Unit::kTokens}).multiples(before, after), 3);
  EXPECT_EQ(Cadence({5, TrainingDuration::Unit::kPercent}).multiples(before, after), 3);
  EXPECT_EQ(Cadence({10, TrainingDuration::Unit::kSeconds}).multiples(before, after), 0);
  EXPECT_EQ(Cadence({0, TrainingDuration::Unit::kSteps}).multiples(before, after), 0);
}

TEST(Cadence, SkippedStepIsNotCountedTwice) {
  const RunClock at_ten{.total = 20, .steps = 10, .tokens = 1000, .seconds = 20};
  EXPECT_FALSE(Cadence({10, TrainingDuration::Unit::kSteps}).due(at_ten, at_ten.after(0, 0, 1)));
}

}  // namespace

}  // namespace lmtrain
