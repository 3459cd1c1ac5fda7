#include "eval/eval_share.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

Config config_of(int64_t tokens, const TrainingDuration& every,
                 PrecisionSetting precision = PrecisionSetting::kFp32) {
  Config config;
  config.batch.tokens = 1000;
  config.train.tokens = tokens;
  config.eval.every = every;
  config.precision = precision;
  return config;
}

int64_t resolved(Config config) {
  resolve_eval_tokens(config, PreparedData{});
  return config.eval.tokens.value_or(-1);
}

TEST(EvalShare, CountsAsTheRunWillHaveThem) {
  const PreparedData none;
  EXPECT_EQ(count_evaluations(config_of(100'000, {0, TrainingDuration::Unit::kSteps}), none), 2);
  EXPECT_EQ(count_evaluations(config_of(100'000, {5, TrainingDuration::Unit::kPercent}), none), 21);
  EXPECT_EQ(count_evaluations(config_of(100'000, {50, TrainingDuration::Unit::kSteps}), none), 3);
  EXPECT_EQ(count_evaluations(config_of(100'000, {30'000, TrainingDuration::Unit::kTokens}), none),
            5);
  EXPECT_EQ(count_evaluations(config_of(100'000, {0.1, TrainingDuration::Unit::kPercent}), none),
            101);
  EXPECT_EQ(count_evaluations(config_of(100'000, {90, TrainingDuration::Unit::kSeconds}), none),
            21);
  Config steps = config_of(1, {10, TrainingDuration::Unit::kSteps});
  steps.train.tokens.reset();
  steps.train.steps = 40;
  EXPECT_EQ(count_evaluations(steps, none), 5);
  Config epochs = config_of(1, {50, TrainingDuration::Unit::kPercent});
  epochs.train.tokens.reset();
  epochs.train.epochs = 2;
  PreparedData data;
  data.train_tokens = 50'000;
  EXPECT_EQ(count_evaluations(epochs, data), 3);
  epochs.eval.every = {0.5, TrainingDuration::Unit::kEpochs};
  EXPECT_EQ(count_evaluations(epochs, data), 5);
}

TEST(EvalShare, AutoIsAtMostThePartOfTheRun) {
  const PreparedData none;
  for (const PrecisionSetting precision : {PrecisionSetting::kFp32, PrecisionSetting::kBf16,
                                           PrecisionSetting::kFp16, PrecisionSetting::kFp8}) {
    for (const TrainingDuration every : {TrainingDuration{5, TrainingDuration::Unit::kPercent},
                                         TrainingDuration{0, TrainingDuration::Unit::kSteps},
                                         TrainingDuration{1, TrainingDuration::Unit::kPercent},
                                         TrainingDuration{100, TrainingDuration::Unit::kSteps}}) {
      for (const int64_t tokens : {20'000'000, 100'000'000, 900'000'000}) {
        Config config = config_of(tokens, every, precision);
        const int64_t targets = resolved(config);
        if (targets > kLeastEvalTokens) {
          EXPECT_LE(evaluation_share(config, none, targets), kMostEvalShare);
        }
        // And not much less, unless it is the most already.
        if (targets < kMostEvalTokens && targets > kLeastEvalTokens) {
          EXPECT_GT(evaluation_share(config, none, targets), 0.8 * kMostEvalShare);
        }
      }
    }
  }
}

TEST(EvalShare, HasALeastAndAMost) {
  EXPECT_EQ(resolved(config_of(1'000'000'000'000, {5, TrainingDuration::Unit::kPercent})),
            kMostEvalTokens);
  EXPECT_EQ(resolved(config_of(10'000, {5, TrainingDuration::Unit::kPercent})), kLeastEvalTokens);
  EXPECT_EQ(resolved(config_of(2'000'000, {0, TrainingDuration::Unit::kSteps})), 150'000);
}

TEST(EvalShare, ANumberGivenIsTakenAsItIs) {
  Config config = config_of(10'000, {5, TrainingDuration::Unit::kPercent});
  config.eval.tokens = 5;
  EXPECT_EQ(resolved(config), 5);
  config.eval.tokens = 50'000'000;
  EXPECT_EQ(resolved(config), 50'000'000);
  EXPECT_GT(evaluation_share(config, PreparedData{}, 50'000'000), 0.9);
}

}  // namespace
}  // namespace lmtrain
