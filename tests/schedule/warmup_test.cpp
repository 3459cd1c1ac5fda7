#include "schedule/warmup.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

TEST(LinearWarmup, GrowsAlongALineAndThenHolds) {
  EXPECT_EQ(linear_warmup(0, 8, 0, 100), 0);
  EXPECT_DOUBLE_EQ(linear_warmup(0, 8, 1, 100), 0.08);
  EXPECT_DOUBLE_EQ(linear_warmup(2, 8, 50, 100), 5);
  EXPECT_EQ(linear_warmup(0, 8, 100, 100), 8);
  EXPECT_EQ(linear_warmup(0, 8, 1e9, 100), 8);
}

TEST(LinearWarmup, OverNothingIsThereAtOnce) {
  EXPECT_EQ(linear_warmup(0, 8, 0, 0), 8);
  EXPECT_EQ(half_life_warmup(0.9, 0.9999, 1, 0), 0.9999);
}

// Half of the way in half-life, ln 2 / -ln beta: 6.58 and 6931 steps are 3469 steps in the middle.
TEST(HalfLifeWarmup, GrowsByHalfLife) {
  // The small number in the formula shows.
  EXPECT_NEAR(half_life_warmup(0.9, 0.9999, 0, 100), 0.9, 2e-8);
  EXPECT_NEAR(half_life_warmup(0.9, 0.9999, 50, 100), 0.99980022, 1e-8);
  EXPECT_NEAR(half_life_warmup(0.9, 0.9999, 1, 100), 0.990901, 1e-6);
  EXPECT_EQ(half_life_warmup(0.9, 0.9999, 100, 100), 0.9999);
  // From no memory at all.
  EXPECT_NEAR(half_life_warmup(0, 0.9, 0, 100), 0, 2e-8);
}

}  // namespace
}  // namespace lmtrain
