// Decides what becomes of a step whose gradient is known: its update is applied, its batch is
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
  // The gradient overflowed under the loss scale of fp16, which has to be lowered: the batch is
  // skipped, and that is no anomaly.
  bool overflow = false;
  // A skipped batch counts towards guard.max_skips, except while the loss scale can still be
  // lowered.
  bool counts_as_skip = true;
  // For people; "loss_scale" where the gradient overflowed (docs/formats/run_folder.md).
  std::string reason{};
};

// `loss_scale` is that of fp16, null in any other precision. Loss and gradient norm are already
// divided by it. `length` is that of the batch's rows. The function is pure.
StepDecision decide_step(const GuardConfig& config, const GuardState& state,
                         const LossScale* loss_scale, int64_t length, double loss,
                         double grad_norm);

}  // namespace lmtrain
