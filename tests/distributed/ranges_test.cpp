#include "distributed/ranges.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

TEST(Ranges, APowerOfTwoHasTheOrderOfReversedBits) {
  const std::vector<ElementRange> ranges = ranges_of_ranks({0, 10, 30, 60, 100});
  EXPECT_EQ(ranges, (std::vector<ElementRange>{{0, 10}, {30, 30}, {10, 20}, {60, 40}}));
  EXPECT_EQ(ranges_of_ranks({0, 5}), (std::vector<ElementRange>{{0, 5}}));
}

TEST(Ranges, OtherNumbersHaveTheOrderOfRanks) {
  EXPECT_EQ(ranges_of_ranks({0, 1, 1, 7}), (std::vector<ElementRange>{{0, 1}, {1, 0}, {1, 6}}));
}

TEST(Ranges, EvenOnesCoverAll) {
  for (const int count : {1, 3, 4, 7}) {
    for (const int64_t size : {0, 2, 100}) {
      int64_t sum = 0;
      for (const ElementRange& range : even_ranges(size, count)) {
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
