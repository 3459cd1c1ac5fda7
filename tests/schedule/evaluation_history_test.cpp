// The lowest held-out loss of a run, and how long it has not fallen.
#include "schedule/evaluation_history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace lmtrain {
namespace {

// Evaluations 10 steps apart, the first at step 0. Returns without_gain after each.
std::vector<int64_t> note(EvaluationHistory& history, const std::vector<double>& losses,
                          double min_delta = 0) {
  EvalConfig config;
  if (min_delta > 0) config.early_stop = EarlyStopConfig{.patience = 2, .min_delta = min_delta};
  std::vector<int64_t> counts;
  for (size_t i = 0; i < losses.size(); ++i) {
    note_evaluation(history, {static_cast<int64_t>(10 * i), losses[i]}, config, /*saved=*/false);
    counts.push_back(history.without_gain);
  }
  return counts;
}

using Counts = std::vector<int64_t>;

TEST(EvaluationHistory, ALowerLossBeginsTheCountAnew) {
  EvaluationHistory history;
  EXPECT_EQ(note(history, {5, 4, 4.5, 4.25, 3, 3.5}), (Counts{0, 0, 1, 2, 0, 1}));
  EXPECT_EQ(history.lowest->step, 40);
  EXPECT_EQ(history.lowest->loss, 3);
  EXPECT_TRUE(is_lowest(history, 40));
  EXPECT_FALSE(is_lowest(history, 50));
  EXPECT_FALSE(is_lowest(EvaluationHistory(), 0));
}

TEST(EvaluationHistory, OfEqualLossesTheFirstIsTheLowest) {
  EvaluationHistory history;
  EXPECT_EQ(note(history, {4, 4}), (Counts{0, 1}));
  EXPECT_EQ(history.lowest->step, 0);
}

// Each is compared with the lowest before it, however little that was lower than the one before.
TEST(EvaluationHistory, AGainIsMoreThanMinDelta) {
  EvaluationHistory history;
  EXPECT_EQ(note(history, {5, 4.5, 4.25, 4, 3.25}, 0.25), (Counts{0, 0, 1, 2, 0}));
  EXPECT_EQ(history.lowest->step, 40);
  EvaluationHistory slow;
  EXPECT_EQ(note(slow, {5, 4.875, 4.75, 4.625}, 0.25), (Counts{0, 1, 2, 3}));
  EXPECT_EQ(slow.lowest->step, 30) << "it is the lowest all the same";
}

TEST(EvaluationHistory, ALossThatIsNotFiniteHasNoGain) {
  EvaluationHistory history;
  EXPECT_EQ(note(history, {NAN, 5, INFINITY, NAN, 4}), (Counts{1, 0, 1, 2, 0}));
  EXPECT_EQ(history.lowest->step, 40);
}

TEST(EvaluationHistory, WhatACheckpointDoesNotKnowIsRemembered) {
  EvaluationHistory history;
  note_evaluation(history, {10, 4}, EvalConfig(), /*saved=*/false);
  note_evaluation(history, {20, 5}, EvalConfig(), /*saved=*/true);
  note_evaluation(history, {30, NAN}, EvalConfig(), /*saved=*/true);
  ASSERT_EQ(history.after_save.size(), 1U);
  EXPECT_EQ(history.after_save[0].step, 20);
  EXPECT_EQ(history.after_save[0].loss, 5);
}

}  // namespace
}  // namespace lmtrain
