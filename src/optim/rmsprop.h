// Updates by RMSProp (Tieleman & Hinton 2012, lecture 6e), as torch.optim.RMSprop does, with
// decoupled weight decay instead of its coupled one:
//
//   v <- b v + (1 - b) g^2      w <- w - lr wd w - lr g / (sqrt(v) + eps)
//
// There is no momentum, and v, which begins at 0, has no bias correction: the first steps are up to
// 1 / sqrt(1 - b) times lr. b is the only one of betas. The state is exp_avg_sq (v).
#pragma once

#include "optim/range_rule.h"

namespace lmtrain {

class RmsProp : public RangeRule {
 public:
  // Updates only the tensors for which `takes` returns true.
  RmsProp(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes);

 private:
  void update_range(const UpdateStep& step, const RangeView& view) override;

  double eps_;
};

}  // namespace lmtrain
