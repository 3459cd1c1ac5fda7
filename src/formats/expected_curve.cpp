#include "formats/expected_curve.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/examine.h"
#include "base/file.h"
#include "base/read_file.h"
#include "formats/strict_json.h"

namespace lmtrain {

ExpectedPoint ExpectedCurve::at(double tokens) const {
  const auto next = std::ranges::lower_bound(points, tokens, {}, &ExpectedPoint::tokens);
  if (next == points.begin()) return points.front();
  if (next == points.end()) return points.back();
  const ExpectedPoint& a = next[-1];
  const ExpectedPoint& b = *next;
  const double part = std::log(tokens / a.tokens) / std::log(b.tokens / a.tokens);
  const auto between = [&](double from, double to) { return from + part * (to - from); };
  return {tokens, between(a.loss, b.loss), between(a.low, b.low), between(a.high, b.high)};
}

std::filesystem::path expected_curve_file(const std::filesystem::path& run) {
  return run / "forecast.json";
}

void write_expected_curve(const std::filesystem::path& file, const ExpectedCurve& curve) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  for (const ExpectedPoint& point : curve.points) {
    points.push_back(
        {{"tokens", point.tokens}, {"loss", point.loss}, {"low", point.low}, {"high", point.high}});
  }
  const nlohmann::ordered_json json = {{"forecast", curve.forecast}, {"points", std::move(points)}};
  write_file_atomic(file, json.dump(2) + "\n");
}

std::optional<ExpectedCurve> read_expected_curve(const std::filesystem::path& file) {
  if (!is_file(file)) return std::nullopt;
  nlohmann::json json;
  try {
    json = parse_strict_json(read_file(file), {});
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo) throw;
    return std::nullopt;
  }
  if (!json.is_object() || !json.contains("points") || !json["points"].is_array())
    return std::nullopt;
  ExpectedCurve curve;
  if (json.contains("forecast") && json["forecast"].is_string())
    curve.forecast = json["forecast"].get<std::string>();
  double before = 0;
  for (const nlohmann::json& point : json["points"]) {
    if (!point.is_object()) return std::nullopt;
    const auto number = [&](const char* key) { return number_at(point, key).value_or(NAN); };
    curve.points.push_back({number("tokens"), number("loss"), number("low"), number("high")});
    const ExpectedPoint& read = curve.points.back();
    const bool is_sound = read.tokens > before && read.low > 0 && read.low <= read.loss &&
                          read.loss <= read.high && std::isfinite(read.high);
    if (!is_sound) return std::nullopt;
    before = read.tokens;
  }
  return curve.points.empty() ? std::nullopt : std::optional(std::move(curve));
}

}  // namespace lmtrain
