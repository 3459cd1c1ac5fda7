#include "optim/anomaly_policy.h"

#include <cmath>

namespace lmtrain {

StepDecision decide_step(const GuardConfig& config, const GuardState& state,
                         const LossScale* loss_scale, int64_t length, double loss,
                         double grad_norm) {
  StepDecision decision;
  if (loss_scale != nullptr && std::isfinite(loss) && !std::isfinite(grad_norm)) {
    decision.action = StepAction::kSkip;
    decision.overflow = true;
    decision.counts_as_skip = loss_scale->at_floor();
    decision.reason = "loss_scale";
    return decision;
  }
  const Verdict verdict = judge_step(config, state, length, loss, grad_norm);
  if (verdict.anomaly == Anomaly::kNone) return decision;
  decision.anomaly = verdict.anomaly;
  decision.reason = verdict.reason;
  const GuardPolicy policy =
      verdict.anomaly == Anomaly::kSpike ? config.on_spike : config.on_nonfinite;
  switch (policy) {
    case GuardPolicy::kRollback:
      decision.action = StepAction::kRollback;
      break;
    case GuardPolicy::kStop:
      decision.action = StepAction::kStop;
      break;
    case GuardPolicy::kOff:  // then there is no anomaly
    case GuardPolicy::kSkip:
      decision.action = StepAction::kSkip;
      break;
  }
  return decision;
}

}  // namespace lmtrain
