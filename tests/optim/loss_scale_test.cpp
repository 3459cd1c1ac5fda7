#include "optim/loss_scale.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

TEST(LossScale, HalvesOnOverflowDownToTheFloor) {
  LossScale scale;
  double expected = 65536;
  for (int i = 0; i < 16; ++i) {
    EXPECT_FALSE(scale.at_floor());
    scale.on_overflow();
    EXPECT_EQ(scale.scale, expected /= 2);
  }
  EXPECT_TRUE(scale.at_floor());
  scale.on_overflow();
  EXPECT_EQ(scale.scale, 1);
}

TEST(LossScale, DoublesAfterAnIntervalWithoutOverflow) {
  LossScale scale{1024, 0};
  for (int i = 0; i < 1999; ++i) scale.on_update();
  EXPECT_EQ(scale.scale, 1024);
  scale.on_overflow();  // counts anew
  for (int i = 0; i < 1999; ++i) scale.on_update();
  EXPECT_EQ(scale.scale, 512);
  scale.on_update();
  EXPECT_EQ(scale.scale, 1024);
  EXPECT_EQ(scale.good_in_a_row, 0);
  for (int i = 0; i < 100'000; ++i) scale.on_update();
  EXPECT_EQ(scale.scale, LossScale::kCeiling);
}

}  // namespace
}  // namespace lmtrain
