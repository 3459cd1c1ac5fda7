#include "distributed/ranges.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

TEST(Ranges, APowerOfTwoHasTheOrderOfReversedBits) {
  const std::vector<ElementRange> ranges = divided_at({0, 10, 30, 60, 100}).ranges;
  EXPECT_EQ(ranges, (std::vector<ElementRange>{{0, 10}, {30, 30}, {10, 20}, {60, 40}}));
  EXPECT_EQ(divided_at({0, 5}).ranges, (std::vector<ElementRange>{{0, 5}}));
}

TEST(Ranges, OtherNumbersHaveTheOrderOfRanks) {
  EXPECT_EQ(divided_at({0, 1, 1, 7}).ranges, (std::vector<ElementRange>{{0, 1}, {1, 0}, {1, 6}}));
}

TEST(Ranges, EvenOnesCoverAll) {
  for (const int count : {1, 3, 4, 7}) {
    for (const int64_t size : {0, 2, 100}) {
      int64_t sum = 0;
      const DividedRange all = evenly_divided({0, size}, count);
      for (const ElementRange& range : all.ranges) {
        EXPECT_LE(range.size, size / count + 1);
        EXPECT_GE(range.size, size / count);
        sum += range.size;
      }
      EXPECT_EQ(sum, size);
    }
  }
}

}  // namespace
}  // namespace lmtrain
