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

TEST(JsonNumber, IsReadBack) {
  EXPECT_EQ(number_if_any(finite_or_null(1e-300)), 1e-300);
  EXPECT_EQ(number_if_any(nullptr), std::nullopt);
  EXPECT_ANY_THROW(number_if_any("text"));
}

}  // namespace
}  // namespace lmtrain
