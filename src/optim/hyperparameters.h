// Betas and weight decay of an update.
//
// A weight w whose step is -lr u decays by w <- w - lr wd w. With `optimizer.cautious_decay` (Chen
// et al. 2025, Cautious Weight Decay, 2510.12402) it does so only where u w > 0, that is, where the
// step goes towards zero. The paper has u w >= 0: weights whose step is exactly zero decay there,
// and do not here.
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
  // Decays the weights `w` of a group in place, at its learning rate `lr`; `u` has their shape and
  // the sign of what is subtracted later. The fused kernels decay by themselves, to the same rule.
  void decay(const at::Tensor& w, const at::Tensor& u, double lr,
             const ParameterGroup& group) const;

 private:
  std::vector<double> betas_;
  bool cautious_decay_;
};

}  // namespace lmtrain
