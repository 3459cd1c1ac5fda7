// Warns of settings that are seldom meant, though nothing forbids them: many passes over little
// text, a warm-up longer than the run, a rate that rises when a run is made longer. Each rule is
// one function; `train`, `train --dry-run`, `resume` and `plan` print what they find as warnings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "batching/batch_order.h"
#include "config/config.h"

namespace lmtrain {

// Returns the warnings in a fixed order; each names the settings to change. `config` is resolved.
// `order` is the run's order of data. `eval_targets` is the number of targets of an evaluation;
// nothing without held-out text.
std::vector<std::string> run_warnings(const Config& config, const BatchOrder& order,
                                      std::optional<int64_t> eval_targets);

// Tells where a run stands when it is resumed.
struct ResumePoint {
  int64_t step = 0;    // updates applied
  int64_t tokens = 0;  // targets of these updates
};
// Compares the next step's learning rate, as a fraction of optimizer.lr, under the config `before`
// a change and `after` it. Returns a warning when the fraction has risen by more than 5 %, else
// nothing. It rises when a decay that had begun begins anew. `order` is the order of data under
// `after`.
std::optional<std::string> rate_rise(const Config& before, const Config& after,
                                     const BatchOrder& order, const ResumePoint& position);

}  // namespace lmtrain
