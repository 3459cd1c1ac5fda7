// Warnings of settings that are seldom meant, though nothing forbids them: many passes over little
// text, a warm-up longer than the run, a rate that rises when a run is made longer. Each rule is
// one function; `train`, `train --dry-run`, `resume` and `plan` print what they find as warnings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "batching/batch_order.h"
#include "config/config.h"

namespace lmtrain {

// Passes over the text of a source above which a run learns it by heart rather than from it.
inline constexpr double kMostPasses = 20;

// `config` is resolved, `order` its plan. In a fixed order; each names the settings to change.
std::vector<std::string> run_warnings(const Config& config, const BatchOrder& order, bool has_eval);

// Where a run stands when it is resumed.
struct ResumePoint {
  int64_t step = 0;
  int64_t tokens = 0;
};
// A warning where the next step's share of optimizer.lr under `after` is more than 5 % above its
// share under `before`, as when a decay that had begun begins anew; else nothing. `order` is that
// of `after`.
std::optional<std::string> rate_rise(const Config& before, const Config& after,
                                     const BatchOrder& order, const ResumePoint& position);

}  // namespace lmtrain
