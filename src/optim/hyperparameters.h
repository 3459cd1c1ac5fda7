// Holds betas of a rule, and decays weights.
//
// A weight w with the step -lr u decays by w <- w - lr wd w. With `optimizer.cautious_decay` (Chen
// et al. 2025, Cautious Weight Decay, 2510.12402) it decays only if u w > 0, that is, if the step
// goes towards zero. In the paper weights whose step is exactly zero decay too (u w >= 0).
#pragma once

#include "config/config.h"
#include "optim/parameter_groups.h"

namespace lmtrain {

class Hyperparameters {
 public:
  explicit Hyperparameters(const OptimizerConfig& config);

  // Returns entry i of optimizer.betas, counted from 0.
  double beta(size_t i) const { return betas_.at(i); }
  bool decays_cautiously() const { return cautious_decay_; }
  // Decays the weights `w` of `group` in place, at the learning rate `lr` of the group. `u` has the
  // shape of `w`, and the sign of what the rule subtracts later. Fused kernels decay by the same
  // formula.
  void decay(const at::Tensor& w, const at::Tensor& u, double lr,
             const ParameterGroup& group) const;

 private:
  std::vector<double> betas_;
  bool cautious_decay_;
};

}  // namespace lmtrain
