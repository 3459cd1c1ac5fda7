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

TEST(JsonNumber, AnIntegerIsReadOnlyWhereItIsOneAndFits) {
  using Json = nlohmann::json;
  EXPECT_EQ(integer_in<int64_t>(Json(-5)), -5);
  EXPECT_EQ(integer_in<uint64_t>(Json(UINT64_MAX)), UINT64_MAX);
  EXPECT_EQ(integer_in<int32_t>(Json(INT32_MIN)), INT32_MIN);
  for (const char* other :
       {"1e300", "1.5", "1.0", "9223372036854775808", "true", "null", "\"1\"", "[1]"})
    EXPECT_THROW(integer_in<int64_t>(Json::parse(other)), Json::type_error) << other;
  EXPECT_THROW(integer_in<uint32_t>(Json(-1)), Json::type_error);
  EXPECT_THROW(integer_in<int32_t>(Json(int64_t{1} << 31)), Json::type_error);
}

}  // namespace
}  // namespace lmtrain
