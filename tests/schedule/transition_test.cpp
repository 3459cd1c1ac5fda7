#include "schedule/transition.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

TEST(Transition, GoesAlongALine) {
  EXPECT_EQ(transition(EndShape::kLinear, 0.1, 0.5, 0, 100), 0.1);
  EXPECT_DOUBLE_EQ(transition(EndShape::kLinear, 0.1, 0.5, 1, 100), 0.104);
  EXPECT_DOUBLE_EQ(transition(EndShape::kLinear, 0.1, 0.5, 75, 100), 0.4);
  EXPECT_DOUBLE_EQ(transition(EndShape::kLinear, 0.1, 0.5, 99, 100), 0.496);
}

TEST(Transition, GoesAlongHalfACosine) {
  EXPECT_EQ(transition(EndShape::kCosine, 0.1, 0.5, 0, 100), 0.1);
  EXPECT_DOUBLE_EQ(transition(EndShape::kCosine, 0.1, 0.5, 25, 100),
                   0.1 + 0.4 * 0.14644660940672624);
  EXPECT_DOUBLE_EQ(transition(EndShape::kCosine, 0.1, 0.5, 50, 100), 0.3);
}

TEST(Transition, HasTheLastValueAtTheEndAndAfter) {
  for (const EndShape shape : {EndShape::kLinear, EndShape::kCosine}) {
    EXPECT_EQ(transition(shape, 0.9, 0.95, 100, 100), 0.95);
    EXPECT_EQ(transition(shape, 0.9, 0.95, 1e9, 100), 0.95);
    EXPECT_EQ(transition(shape, 0.9, 0.95, 1, 0), 0.95);
  }
}

TEST(Transition, ThatGoesNowhereChangesNoBit) {
  for (int done = 0; done <= 1000; ++done) {
    EXPECT_EQ(transition(EndShape::kLinear, 0.95, 0.95, done, 1000), 0.95);
    EXPECT_EQ(transition(EndShape::kCosine, 0.95, 0.95, done, 1000), 0.95);
  }
}

}  // namespace
}  // namespace lmtrain
