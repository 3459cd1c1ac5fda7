#include "optim/guard.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lmtrain {
namespace {

GuardConfig spikes(int64_t window = 8) {
  GuardConfig config;
  config.on_spike = GuardPolicy::kSkip;
  config.spike_sigma = 6;
  config.window = window;
  return config;
}

// A window of `count` ordinary values at `length`: losses about 4, norms about 1.
void fill(const GuardConfig& config, GuardState& state, int64_t length, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const double wave = 0.1 * std::sin(static_cast<double>(i));
    note_update(config, state, length, 4 + wave, 1 + wave);
  }
}

TEST(Guard, WhatIsNotFiniteIsNamed) {
  const GuardConfig config;
  const GuardState state;
  EXPECT_EQ(judge_step(config, state, 64, 4, 1).anomaly, Anomaly::kNone);
  for (const double bad : {static_cast<double>(NAN), HUGE_VAL, -HUGE_VAL}) {
    EXPECT_EQ(judge_step(config, state, 64, bad, 1).reason, "the loss is not finite");
    EXPECT_EQ(judge_step(config, state, 64, 4, bad).reason, "the gradient is not finite");
    EXPECT_EQ(judge_step(config, state, 64, bad, bad).anomaly, Anomaly::kNotFinite);
  }
  GuardConfig off;
  off.on_nonfinite = GuardPolicy::kOff;
  EXPECT_EQ(judge_step(off, state, 64, NAN, NAN).anomaly, Anomaly::kNone);
}

TEST(Guard, ASpikeOfLossOrNormIsOne) {
  const GuardConfig config = spikes();
  GuardState state;
  fill(config, state, 64, 20);
  EXPECT_EQ(judge_step(config, state, 64, 4.2, 1.2).anomaly, Anomaly::kNone);
  EXPECT_EQ(judge_step(config, state, 64, 8, 1).anomaly, Anomaly::kSpike);
  EXPECT_EQ(judge_step(config, state, 64, 4, 5).anomaly, Anomaly::kSpike);
  EXPECT_NE(judge_step(config, state, 64, 4, 5).reason.find("gradient norm"), std::string::npos);
  // A fall is none.
  EXPECT_EQ(judge_step(config, state, 64, 0.1, 0.01).anomaly, Anomaly::kNone);
  // Nor is anything while spikes are off.
  EXPECT_EQ(judge_step(GuardConfig{}, state, 64, 1e9, 1e9).anomaly, Anomaly::kNone);
}

TEST(Guard, TheLimitIsSigmasAboveTheMean) {
  GuardConfig config = spikes(4);
  GuardState state;
  for (const double loss : {1.0, 2.0, 3.0, 4.0}) note_update(config, state, 64, loss, 1);
  const double mean = 2.5;
  const double deviation = std::sqrt(5.0 / 3);
  for (const double sigmas : {2.0, 6.0}) {
    config.spike_sigma = sigmas;
    const double limit = mean + sigmas * deviation;
    EXPECT_EQ(judge_step(config, state, 64, limit - 1e-9, 1).anomaly, Anomaly::kNone);
    EXPECT_EQ(judge_step(config, state, 64, limit + 1e-9, 1).anomaly, Anomaly::kSpike);
  }
}

TEST(Guard, JudgesOnceTheWindowIsHalfFull) {
  const GuardConfig config = spikes(8);
  GuardState state;
  fill(config, state, 64, 3);
  EXPECT_EQ(judge_step(config, state, 64, 1e6, 1).anomaly, Anomaly::kNone);
  fill(config, state, 64, 1);
  EXPECT_EQ(judge_step(config, state, 64, 1e6, 1).anomaly, Anomaly::kSpike);
}

TEST(Guard, EachLengthHasItsOwnWindow) {
  const GuardConfig config = spikes();
  GuardState state;
  fill(config, state, 64, 8);
  for (int i = 0; i < 8; ++i) note_update(config, state, 1024, 40 + 0.1 * i, 1 + 0.1 * i);
  EXPECT_EQ(judge_step(config, state, 64, 40, 1).anomaly, Anomaly::kSpike);
  EXPECT_EQ(judge_step(config, state, 1024, 40, 1).anomaly, Anomaly::kNone);
  EXPECT_EQ(judge_step(config, state, 256, 40, 1).anomaly, Anomaly::kNone);
}

TEST(Guard, KeepsAWindowAndNothingThatIsNotFinite) {
  GuardConfig config = spikes(8);
  config.on_nonfinite = GuardPolicy::kOff;  // such updates are applied, and still do not enter
  GuardState state;
  for (int i = 0; i < 1000; ++i) {
    note_update(config, state, 64, i % 3 == 0 ? NAN : 4 + 0.1 * (i % 3), 1 + 0.1 * (i % 3));
  }
  EXPECT_EQ(state.windows.at(64).losses.size(), 8U);
  EXPECT_EQ(state.windows.at(64).grad_norms.size(), 8U);
  for (const double loss : state.windows.at(64).losses) EXPECT_TRUE(std::isfinite(loss));
  EXPECT_EQ(judge_step(config, state, 64, 40, 1).anomaly, Anomaly::kSpike);
}

TEST(Guard, EqualValuesMakeNoSpikeOfALittleMore) {
  const GuardConfig config = spikes();
  GuardState state;
  for (int i = 0; i < 8; ++i) note_update(config, state, 64, 4, 0);
  EXPECT_EQ(judge_step(config, state, 64, 4.001, 0).anomaly, Anomaly::kNone);
  EXPECT_EQ(judge_step(config, state, 64, 4.1, 0).anomaly, Anomaly::kSpike);
}

TEST(Guard, BatchesPassedOver) {
  GuardState state;
  EXPECT_FALSE(state.excludes(0));
  state.excluded_batches = {5, 8};
  for (const int64_t batch : {5, 8}) EXPECT_TRUE(state.excludes(batch)) << batch;
  for (const int64_t batch : {0, 4, 6, 7, 9}) EXPECT_FALSE(state.excludes(batch)) << batch;
}

}  // namespace
}  // namespace lmtrain
