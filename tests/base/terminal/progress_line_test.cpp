#include "base/terminal/progress_line.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

TEST(ProgressLine, GivesUpPartsInTheirOrder) {
  const std::vector<LinePart> parts = {
      {"step 7", 0}, {"loss 5.1", 1}, {"lr 1e-3", 3}, {"9 tokens/s", 2}, {"14m left", 0}};
  EXPECT_EQ(whole_line(parts), "step 7  loss 5.1  lr 1e-3  9 tokens/s  14m left");
  EXPECT_EQ(fitted_line(parts, 47), whole_line(parts));
  EXPECT_EQ(fitted_line(parts, 46), "step 7  loss 5.1  9 tokens/s  14m left");
  EXPECT_EQ(fitted_line(parts, 38), "step 7  loss 5.1  9 tokens/s  14m left");
  EXPECT_EQ(fitted_line(parts, 37), "step 7  loss 5.1  14m left");
  EXPECT_EQ(fitted_line(parts, 20), "step 7  14m left");
  EXPECT_EQ(fitted_line(parts, 5), "step ");
  EXPECT_EQ(fitted_line({}, 5), "");
}

}  // namespace
}  // namespace lmtrain
