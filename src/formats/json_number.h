// Numbers between C++ and JSON. JSON has no infinity and no NaN: a number that is not finite, or
// not there, is written as null. An integer is read only from a whole number in its range.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/text.h"

namespace lmtrain {

inline nlohmann::ordered_json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}
inline nlohmann::ordered_json finite_or_null(const std::optional<double>& value) {
  return value ? finite_or_null(*value) : nlohmann::ordered_json(nullptr);
}

// Throws Json::type_error for a value that is no integer, such as 1.5 and 1e300, or that is out of
// the range of T. (Json::get<T>() converts any number, which is undefined out of range.)
template <class T, class Json>
T integer_in(const Json& json) {
  static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>);
  if (json.is_number_unsigned()) {
    const auto value = json.template get<uint64_t>();
    if (std::in_range<T>(value)) return static_cast<T>(value);
  } else if (json.is_number_integer()) {
    const auto value = json.template get<int64_t>();
    if (std::in_range<T>(value)) return static_cast<T>(value);
  }
  throw Json::type_error::create(302,
                                 str("must be an integer in range, but is ",
                                     json.is_number() ? json.dump() : json.type_name()),
                                 &json);
}

}  // namespace lmtrain
