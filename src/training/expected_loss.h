// Reads the forecast.json of `lmtrain forecast`, and computes from it the losses to expect of a
// run.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/run_folder.h"
#include "config/config.h"
#include "formats/expected_curve.h"
#include "prepare/prepare.h"
#include "schedule/loss_law.h"

namespace lmtrain {

struct SavedForecast {
  LossForecast forecast;            // the laws (schedule/loss_law.h)
  std::vector<CoursePoint> course;  // of a run before its end
  std::string fingerprint;          // of the data
  double bytes_per_target = 0;      // of the held-out text
};

// Returns the path of forecast.json in the folder of a forecast.
std::filesystem::path forecast_file(const std::filesystem::path& folder);
// Reads forecast.json in `folder`. Throws Error(kUsage) if there is none, Error(kData) if it is
// damaged or of another version, and Error(kIo).
SavedForecast read_forecast(const std::filesystem::path& folder);

// Returns the targets of one pass over the training text, at least 1.
double text_tokens(const PreparedData& data);
// Returns the bytes of held-out text for each target; 0 without held-out text.
double bytes_per_target(const PreparedData& data);

// Returns the held-out losses, in nats a target, to expect of a run by the forecast in
// config.forecast, which must be given. `config` is resolved; `tokens` are the targets of the run.
// If the tokenizer is another, converts the losses by bytes_per_target. Warns if the data are not
// the data of the forecast. Throws the errors of read_forecast().
ExpectedCurve expect_curve(const Config& config, const PreparedData& data, double tokens);

// If the config has a forecast, writes expect_curve() into the run folder (expected_curve_file()),
// unless it is there for this forecast and length; `tokens` are the targets of the run. If the
// forecast is missing or damaged, warns instead. Throws Error(kIo).
void write_expectation(const Config& config, const PreparedData& data, const RunFolder& run,
                       double tokens);

}  // namespace lmtrain
