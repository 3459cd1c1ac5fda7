#include "formats/expected_curve.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "base/support.h"

namespace lmtrain {
namespace {

const ExpectedCurve kCurve = {"/forecast", {{100, 4, 3.9, 4.2}, {400, 3, 2.9, 3.3}}};

TEST(ExpectedCurve, IsReadAsItWasWritten) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "forecast.json";
  EXPECT_FALSE(read_expected_curve(file));
  write_expected_curve(file, kCurve);
  const auto read = read_expected_curve(file);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->forecast, kCurve.forecast);
  ASSERT_EQ(read->points.size(), 2U);
  EXPECT_EQ(read->points[1].tokens, 400);
  EXPECT_EQ(read->points[1].high, 3.3);
}

TEST(ExpectedCurve, BetweenThePointsIsALineInTheLogarithm) {
  const ExpectedPoint middle = kCurve.at(200);
  EXPECT_NEAR(middle.loss, 3.5, 1e-12);
  EXPECT_NEAR(middle.low, 3.4, 1e-12);
  EXPECT_NEAR(middle.high, 3.75, 1e-12);
  EXPECT_EQ(kCurve.at(1).loss, 4);
  EXPECT_EQ(kCurve.at(400).loss, 3);
  EXPECT_EQ(kCurve.at(1e9).loss, 3);
}

TEST(ExpectedCurve, ADamagedFileIsNone) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "forecast.json";
  for (const char* text :
       {"", "[]", "{}", R"({"points": []})", R"({"points": [1]})", R"({"points": [{"tokens": 1}]})",
        R"({"points": [{"tokens": 1, "loss": 5, "low": 6, "high": 7}]})",
        R"({"points": [{"tokens": 1, "loss": null, "low": 6, "high": 7}]})",
        R"({"points": [{"tokens": 2, "loss": 3, "low": 2, "high": 4},
                       {"tokens": 1, "loss": 3, "low": 2, "high": 4}]})"}) {
    write_file_atomic(file, text);
    EXPECT_FALSE(read_expected_curve(file)) << text;
  }
}

}  // namespace
}  // namespace lmtrain
