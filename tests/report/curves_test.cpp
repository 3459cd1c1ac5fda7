#include "report/curves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "report/runs_of_test.h"

namespace lmtrain {
namespace {

TEST(Curves, FewUpdatesHaveABucketEach) {
  const RunCurves curves = curves_of(testing::falling_updates(5), 5);
  EXPECT_EQ(curves.step, (std::vector<float>{1, 2, 3, 4, 5}));
  EXPECT_EQ(curves.tokens, (std::vector<float>{100, 200, 300, 400, 500}));
  const CurveColumn& loss = curves.columns.at("loss");
  ASSERT_EQ(loss.mean.size(), 5U);
  EXPECT_FLOAT_EQ(loss.mean[3], 2.5);
  EXPECT_TRUE(loss.low.empty());
  EXPECT_TRUE(loss.high.empty());
}

TEST(Curves, ManyUpdatesKeepMeanLowestAndHighest) {
  UpdateColumns updates = testing::falling_updates(1000);
  for (size_t i = 0; i < 1000; ++i) updates.loss[i] = static_cast<double>(i);
  updates.loss[555] = 1e6;  // the spike of one update
  const RunCurves curves = curves_of(updates, 100);
  const CurveColumn& loss = curves.columns.at("loss");
  ASSERT_EQ(loss.mean.size(), 100U);
  for (size_t i = 0; i < 100; ++i) {
    const auto first = static_cast<float>(10 * i);
    EXPECT_EQ(curves.step[i], first + 10);
    EXPECT_EQ(loss.low[i], first);
    if (i == 55) continue;
    EXPECT_FLOAT_EQ(loss.mean[i], first + 4.5F);
    EXPECT_EQ(loss.high[i], first + 9);
  }
  EXPECT_EQ(loss.high[55], 1e6F);
}

TEST(Curves, EachUpdateIsInOneBucketWhateverTheirNumber) {
  for (const size_t count : {1U, 2U, 7U, 99U, 100U, 101U, 12345U}) {
    const RunCurves curves = curves_of(testing::falling_updates(count), 100);
    const CurveColumn& ones = curves.columns.at("grad_norm");
    ASSERT_EQ(ones.mean.size(), std::min<size_t>(count, 100)) << count;
    EXPECT_TRUE(std::all_of(ones.mean.begin(), ones.mean.end(), [](float x) { return x == 1; }));
    EXPECT_TRUE(std::is_sorted(curves.step.begin(), curves.step.end()));
    EXPECT_EQ(std::adjacent_find(curves.step.begin(), curves.step.end()), curves.step.end());
    EXPECT_EQ(curves.step.back(), static_cast<float>(count));
  }
}

TEST(Curves, ValuesThatAreNotFiniteAreLeftOut) {
  const double nan = std::nan(""), infinity = HUGE_VAL;
  const std::vector<double> values = {1, nan, 3, infinity, nan, nan, 5, 7, -infinity};
  const CurveColumn column = bucket_column(values, 3);
  EXPECT_EQ(column.mean[0], 2);
  EXPECT_TRUE(std::isnan(column.mean[1]));
  EXPECT_TRUE(std::isnan(column.low[1]));
  EXPECT_TRUE(std::isnan(column.high[1]));
  EXPECT_EQ(column.mean[2], 6);
  EXPECT_EQ(column.low[2], 5);
  EXPECT_EQ(column.high[2], 7);
}

TEST(Curves, AColumnWithoutAValueIsNotThere) {
  const RunCurves curves = curves_of(testing::falling_updates(3), 10);
  EXPECT_FALSE(curves.columns.contains("mfu"));
  EXPECT_TRUE(curves_of(UpdateColumns(), 10).columns.empty());
}

}  // namespace
}  // namespace lmtrain
