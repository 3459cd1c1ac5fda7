// Decides what to do with a step once its gradient is known. The update is applied, the batch is
// skipped, the run goes back to its last checkpoint, or the run ends. The trainer carries it out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/config.h"
#include "optim/guard.h"
#include "optim/loss_scale.h"

namespace lmtrain {

enum class StepAction { kApply, kSkip, kRollback, kStop };

struct StepDecision {
  StepAction action = StepAction::kApply;
  Anomaly anomaly = Anomaly::kNone;
  // The gradient overflowed under the loss scale of fp16. The batch is skipped and the loss scale
  // must be lowered, but this is no anomaly.
  bool overflow = false;
  // Whether a skipped batch counts towards guard.max_skips. It does not after an overflow, unless
  // the loss scale is already the lowest.
  bool counts_as_skip = true;
  // A text for people, or "loss_scale" after an overflow (docs/formats/run_folder.md).
  std::string reason{};
};

// Decides for one step; a pure function. `loss_scale` is the loss scale of fp16, and null in other
// precisions. `loss` and `grad_norm` are already divided by it. `length` is the row length of the
// batch, in tokens.
StepDecision decide_step(const GuardConfig& config, const GuardState& state,
                         const LossScale* loss_scale, int64_t length, double loss,
                         double grad_norm);

}  // namespace lmtrain
