#include "formats/json_number.h"

#include <gtest/gtest.h>

namespace lmtrain {
namespace {

TEST(JsonNumber, WhatIsNotFiniteIsNull) {
  EXPECT_EQ(finite_or_null(0.1).dump(), "0.1");
  EXPECT_EQ(finite_or_null(NAN).dump(), "null");
  EXPECT_EQ(finite_or_null(-INFINITY).dump(), "null");
  EXPECT_EQ(finite_or_null(std::optional<double>()).dump(), "null");
  EXPECT_EQ(finite_or_null(std::optional(2.5)).dump(), "2.5");
}

}  // namespace
}  // namespace lmtrain
