#include "run/anomaly_policy.h"

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
  const std::string& policy =
      verdict.anomaly == Anomaly::kSpike ? config.on_spike : config.on_nonfinite;
  decision.action = policy == "rollback" ? StepAction::kRollback
                    : policy == "stop"   ? StepAction::kStop
                                         : StepAction::kSkip;
  return decision;
}

}  // namespace lmtrain
