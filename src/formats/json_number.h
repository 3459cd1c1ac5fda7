// Numbers that JSON may lack: what is not finite, or not there, is null.
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

// The number, or nothing for null. A string, array or object throws nlohmann::json::type_error.
inline std::optional<double> number_if_any(const nlohmann::ordered_json& value) {
  return value.is_null() ? std::nullopt : std::optional<double>(value.get<double>());
}

}  // namespace lmtrain
