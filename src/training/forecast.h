// Tells the held-out loss of runs before they are trained, for `lmtrain forecast`. It trains a
// ladder of small runs (schedule/ladder.h) in DIR/rungs, each an ordinary run folder, and fits the
// law of schedule/loss_law.h to their losses.
//
// DIR/ladder.json has the ladder from the beginning on, and DIR/forecast.json the answers in the
// end. After a kill at any point the same command goes on: rungs that are done are kept, and the
// rung under way is resumed. Other runs may be asked about later in the same folder; its ladder
// stays. One process does all of it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/config.h"

namespace lmtrain {

// A run that is asked about: the option that was typed ("--time 1h"; empty for the run of the
// config itself), and its config, not resolved.
struct AskedRun {
  std::string option;
  Config config;
};

struct ForecastOrder {
  std::vector<AskedRun> asked;   // at least one; they differ in length and model.size alone
  std::filesystem::path folder;  // DIR
  double spend = 0.1;            // the part of the most expensive run that the ladder may cost
};

struct ForecastResult {
  int exit_code = 0;               // 128 + n: signal n came, and `answers` is empty
  nlohmann::ordered_json answers;  // docs/forecast.md lists the fields
};

// Throws the errors of preparing data and of training, and:
//   Error(kUsage)   a launcher has started several processes, the ladder cannot be paid, DIR holds
//   other files, or the ladder in DIR is of
//                   another config or text
//   Error(kConfig)  init_from is given, or there is no held-out text
ForecastResult make_forecast(const ForecastOrder& order);

}  // namespace lmtrain
