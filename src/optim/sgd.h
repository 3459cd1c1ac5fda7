// Updates by SGD with momentum (Polyak 1964; Sutskever et al. 2013), as torch.optim.SGD does, with
// decoupled weight decay (SGDW, Loshchilov & Hutter, 1711.05101) instead of its coupled one:
//
//   m <- mu m + g       u = g + mu m  with Nesterov, else m
//   w <- w - lr wd w - lr u
//
// g is not multiplied by 1 - mu, so a step is up to 1 / (1 - mu) times lr g. The state is
// momentum_buffer (m).
#pragma once

#include "optim/range_rule.h"

namespace lmtrain {

class Sgd : public RangeRule {
 public:
  // Updates only the tensors for which `takes` returns true.
  Sgd(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes);

 private:
  void update_range(const UpdateStep& step, const RangeView& view) override;

  double momentum_;
  bool nesterov_;
};

}  // namespace lmtrain
