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

// Returns the warnings in a fixed order; each names the settings to change. `config` is resolved,
// `order` is the run's order of data, `eval_targets` the targets of an evaluation; none: there is
// no held-out text.
std::vector<std::string> run_warnings(const Config& config, const BatchOrder& order,
                                      std::optional<int64_t> eval_targets);

// Tells where a run stands when it is resumed: updates applied, and their targets.
struct ResumePoint {
  int64_t step = 0;
  int64_t tokens = 0;
};
// Compares the next step's learning rate, as a fraction of optimizer.lr, under the config `before`
// a change and `after` it. Returns a warning where it has risen by more than 5 %, which happens
// when a decay that had begun begins anew; else nothing. `order` is that of `after`.
std::optional<std::string> rate_rise(const Config& before, const Config& after,
                                     const BatchOrder& order, const ResumePoint& position);

}  // namespace lmtrain
