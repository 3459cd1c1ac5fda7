// Reads the forecast that `lmtrain forecast` has left in a folder, and tells what it expects of a
// run: forecast.json with the laws (schedule/loss_law.h), and the course of a run before its end.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/run_folder.h"
#include "config/config.h"
#include "formats/expected_curve.h"
#include "prepare/prepare.h"
#include "schedule/loss_law.h"
#include "training/plan.h"

namespace lmtrain {

struct SavedForecast {
  LossForecast forecast;
  std::vector<CoursePoint> course;
  std::string fingerprint;      // of the text
  double bytes_per_target = 0;  // of the held-out text
};

// Returns forecast.json in the folder of a forecast.
std::filesystem::path forecast_file(const std::filesystem::path& folder);
// Throws Error(kUsage) where the folder has no forecast.json, and Error(kData) for a damaged one.
SavedForecast read_forecast(const std::filesystem::path& folder);

// Returns the targets of one pass over the text, at least 1.
double text_tokens(const PreparedData& data);
// Returns the bytes of held-out text for each target; 0 without held-out text.
double bytes_per_target(const PreparedData& data);

// Returns the curve that the forecast of config.forecast, which must be given, expects of a run.
// `config` is resolved; `tokens` are the targets of the run. The losses of a text with another
// tokenizer are converted by the bytes of a target. Warns where the text is not the one of the
// forecast. Throws the errors of read_forecast().
ExpectedCurve expect_curve(const Config& config, const PreparedData& data, double tokens);

// Writes forecast.json into the folder of a run whose config has a forecast, unless it is there for
// this forecast and this length. Warns where the forecast cannot be read; the run then goes on
// without it.
void write_expectation(const Config& config, const PreparedData& data, const RunFolder& run,
                       const RunPlan& plan);

}  // namespace lmtrain
