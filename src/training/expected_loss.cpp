#include "training/expected_loss.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/examine.h"
#include "base/log.h"
#include "base/text.h"
#include "config/model_family.h"
#include "formats/strict_json.h"

namespace lmtrain {

namespace fs = std::filesystem;

fs::path forecast_file(const fs::path& folder) { return folder / "forecast.json"; }

SavedForecast read_forecast(const fs::path& folder) {
  const fs::path file = forecast_file(folder);
  if (!is_file(file)) {
    throw Error(ErrorKind::kUsage, str("/forecast: there is no forecast in ", folder.string(),
                                       " (forecast.json); make one with: "
                                       "lmtrain forecast CONFIG.json --to ",
                                       shell_quoted(folder.string())));
  }
  constexpr uint64_t kMost = 16 << 20;
  const nlohmann::json json = read_checked_json(
      file, kMost,
      str("make it again with: lmtrain forecast CONFIG.json --to ", shell_quoted(folder.string())));
  SavedForecast saved;
  try {
    for (const auto& law : json.at("laws")) {
      saved.forecast.laws.push_back(
          {law.at(0), law.at(1), law.at(2), law.at(3), law.at(4), law.at(5), law.at(6), law.at(7)});
    }
    for (const auto& point : json.at("course"))
      saved.course.push_back({point.at(0), point.at(1), point.at(2)});
    json.at("noise").get_to(saved.forecast.noise);
    json.at("drift").get_to(saved.forecast.drift);
    json.at("reach").get_to(saved.forecast.reach);
    json.at("fingerprint").get_to(saved.fingerprint);
    json.at("bytes_per_target").get_to(saved.bytes_per_target);
  } catch (const nlohmann::json::exception&) {
    saved.course.clear();
  }
  if (saved.forecast.laws.empty() || saved.course.empty()) {
    throw Error(ErrorKind::kData, str(file.string(),
                                      " is no forecast of this version of lmtrain; "
                                      "make it again with lmtrain forecast"));
  }
  return saved;
}

double text_tokens(const PreparedData& data) {
  return static_cast<double>(std::max<int64_t>(1, data.train_targets));
}

double bytes_per_target(const PreparedData& data) {
  const int64_t targets = data.eval_targets;
  return targets > 0 ? static_cast<double>(data.eval_bytes) / static_cast<double>(targets) : 0;
}

ExpectedCurve expect_curve(const Config& config, const PreparedData& data, double tokens) {
  const SavedForecast saved = read_forecast(*config.forecast);
  if (saved.fingerprint != data.fingerprint) {
    log_warning(str("the forecast in ", *config.forecast,
                    " is of another text or tokenizer; what it expects is of that text"));
  }
  const double here = bytes_per_target(data);
  const double factor = here > 0 && saved.bytes_per_target > 0 ? here / saved.bytes_per_target : 1;
  const RunSize size = {count_multiplied(config.model, *config.model.vocab_size), tokens,
                        text_tokens(data)};
  ExpectedCurve curve = {*config.forecast, {}};
  for (const CoursePoint& point : saved.course) {
    const LossRange range = range_within_run(saved.forecast, size, point);
    curve.points.push_back(
        {point.share * tokens, factor * range.expected, factor * range.low, factor * range.high});
  }
  return curve;
}

void write_expectation(const Config& config, const PreparedData& data, const RunFolder& run,
                       double tokens) {
  if (!config.forecast) return;
  const fs::path file = expected_curve_file(run.path());
  const std::optional<ExpectedCurve> there = read_expected_curve(file);
  if (there && there->forecast == *config.forecast && there->points.back().tokens == tokens) return;
  try {
    write_expected_curve(file, expect_curve(config, data, tokens));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo) throw;
    log_warning(str(error.what(), there ? str("; the run is compared with the forecast of before, ",
                                              file.string())
                                        : "; the run is not compared with it"));
  }
}

}  // namespace lmtrain
