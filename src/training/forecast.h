// Forecasts the held-out loss of runs that are not trained yet, for `lmtrain forecast`. It trains a
// ladder of small runs (schedule/ladder.h) in DIR/rungs, each an ordinary run folder, and fits the
// law of schedule/loss_law.h to their losses.
//
// DIR/ladder.json holds the ladder from the beginning on, and DIR/forecast.json the answers at the
// end. After a kill the same command goes on: it keeps the rungs that are done, and resumes the
// rung under way. A later call may ask about other runs; the ladder in the folder stays. One
// process does all the work.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/config.h"

namespace lmtrain {

// A run to forecast: the option that a person typed ("--time 1h"; empty for the run of the config
// itself), and its config, not resolved.
struct AskedRun {
  std::string option;
  Config config;
};

struct ForecastOrder {
  std::vector<AskedRun> asked;   // at least one; they differ only in length and model.size
  std::filesystem::path folder;  // DIR
  // The most FLOPs of the whole ladder, as a fraction of the FLOPs of the most expensive asked run.
  double spend = 0.1;
};

struct ForecastResult {
  int exit_code = 0;               // 128 + n: signal n came; then `answers` is empty
  nlohmann::ordered_json answers;  // docs/forecast.md lists the fields
};

// Throws the errors of preparing data and of training, and:
//   Error(kUsage)   a launcher has started several processes, `spend` pays for too few rungs, DIR
//                   holds other files, another process works in DIR, or the ladder in DIR is of
//                   another config or text
//   Error(kConfig)  init_from is given, or there is no held-out text
//   Error(kData)    ladder.json is damaged, or of another version
ForecastResult make_forecast(const ForecastOrder& order);

}  // namespace lmtrain
