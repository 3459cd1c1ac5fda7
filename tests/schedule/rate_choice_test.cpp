#include "schedule/rate_choice.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "schedule/loss_law.h"

namespace lmtrain {
namespace {

// Returns a pair whose second loss is lower by `gain`, in logarithms.
RatePair pair(double factor, double gain, double loss = 4) {
  return {factor, loss, loss * std::exp(-gain)};
}

TEST(RateChoice, GainsAreMeansOverPairsOfOneFactor) {
  const std::vector<RatePair> pairs = {pair(1.4, -0.02), pair(0.7, 0.012), pair(1.4, -0.024, 5),
                                       pair(0.7, 0.016, 5)};
  const std::vector<RateGain> gains = rate_gains(pairs);
  ASSERT_EQ(gains.size(), 2U);
  EXPECT_EQ(gains[0].factor, 0.7);
  EXPECT_EQ(gains[1].factor, 1.4);
  EXPECT_EQ(gains[0].pairs, 2);
  EXPECT_NEAR(gains[0].gain, 0.014, 1e-12);
  EXPECT_NEAR(gains[1].gain, -0.022, 1e-12);
  // Four degrees of freedom: one of each factor, and two of the usual noise.
  const double squares = 2 * 2 * 0.002 * 0.002 + 2 * (2 * kSeedNoise * kSeedNoise);
  const double error = std::sqrt(squares / 4 / 2);
  EXPECT_NEAR(gains[0].standard_error, error, 1e-12);
  EXPECT_NEAR(gains[1].standard_error, error, 1e-12);
  // 2.625 of these are two standard errors of a normal distribution.
  EXPECT_TRUE(gains[0].is_significant);
  EXPECT_FALSE(gains[1].is_significant);
  EXPECT_EQ(kept_factor(gains), 0.7);
}

TEST(RateChoice, AGainBelowTwoStandardErrorsIsNotKept) {
  const double error = std::sqrt(2 * (2 * kSeedNoise * kSeedNoise) / 4 / 2);
  const auto kept = [&](double errors) {
    const double gain = errors * error;
    return kept_factor(rate_gains(std::vector<RatePair>{pair(0.7, gain), pair(0.7, gain),
                                                        pair(1.4, -0.01), pair(1.4, -0.01)}));
  };
  EXPECT_EQ(kept(2.6), std::nullopt);
  EXPECT_EQ(kept(2.65), 0.7);
}

TEST(RateChoice, TheHigherGainIsKept) {
  EXPECT_EQ(kept_factor(rate_gains(std::vector<RatePair>{pair(0.7, 0.03), pair(0.7, 0.03),
                                                         pair(1.4, 0.04), pair(1.4, 0.04)})),
            1.4);
}

TEST(RateChoice, OnePairSaysNothing) {
  const std::vector<RateGain> gains =
      rate_gains(std::vector<RatePair>{pair(0.7, 0.5), pair(1.4, 0), pair(1.4, 0)});
  ASSERT_EQ(gains.size(), 1U);
  EXPECT_EQ(gains[0].factor, 1.4);
  EXPECT_EQ(kept_factor(gains), std::nullopt);
  EXPECT_TRUE(rate_gains({}).empty());
}

// Four pairs of each factor share the runs of the usual rates. `gain` is of the factor 0.7.
int times_kept(double noise, double gain, double factor) {
  int kept = 0;
  for (uint64_t trial = 0; trial < 1000; ++trial) {
    uint64_t index = 0;
    const auto loss = [&](double lower) {
      return 4 * std::exp(noise * random_normal(trial, RandomStream::kBench, index++) - lower);
    };
    std::vector<RatePair> pairs;
    for (int i = 0; i < 4; ++i) {
      const double usual = loss(0);
      pairs.push_back({0.7, usual, loss(gain)});
      pairs.push_back({1.4, usual, loss(-gain)});
    }
    const std::optional<double> kept_one = kept_factor(rate_gains(pairs));
    kept += factor == 0 ? kept_one.has_value() : kept_one == factor;
  }
  return kept;
}

TEST(RateChoice, NoiseAloneIsNotKeptIn95Of100) {
  EXPECT_LE(times_kept(kSeedNoise, 0, 0), 50);
  EXPECT_LE(times_kept(kSeedNoise / 2, 0, 0), 50);
  EXPECT_LE(times_kept(2 * kSeedNoise, 0, 0), 100);  // of twice the usual noise 90 of 100
}

TEST(RateChoice, ATrueGainIsKept) {
  EXPECT_GE(times_kept(kSeedNoise, 0.012, 0.7), 930);
  EXPECT_GE(times_kept(kSeedNoise, 0.02, 0.7), 990);
  EXPECT_EQ(times_kept(kSeedNoise, 0.02, 1.4), 0);
}

}  // namespace
}  // namespace lmtrain
