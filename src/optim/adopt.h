// Updates by ADOPT (Taniguchi et al., 2411.02853), which is Adam whose gradient is divided by the
// second moment of the gradients before it, and averaged after that:
//
//   update 1:  v <- g^2, and no weight moves
//   u  = g / max(sqrt(v), eps), clipped to [-c, c]      c = (t - 1)^(1/4)
//   m <- b1 m + (1 - b1) u      w <- w - lr wd w - lr m      v <- b2 v + (1 - b2) g^2
//
// It is the variant with clipping, as in the authors' code, whose decoupled decay it has. t is the
// number of the update. The state is exp_avg (m) and exp_avg_sq (v).
#pragma once

#include "optim/range_rule.h"

namespace lmtrain {

class Adopt : public RangeRule {
 public:
  // Updates only the tensors for which `takes` returns true.
  Adopt(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes);

 private:
  void update_range(const UpdateStep& step, const RangeView& view) override;

  double eps_;
};

}  // namespace lmtrain
