// JSON has no infinity and no NaN: a number that is not finite, or not there, is written as null.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

namespace lmtrain {

inline nlohmann::ordered_json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}
inline nlohmann::ordered_json finite_or_null(const std::optional<double>& value) {
  return value ? finite_or_null(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace lmtrain
