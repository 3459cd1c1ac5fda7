// Computes betas and weight decay of an update. They are constant, or change over the run to
// `optimizer.betas_end` and `optimizer.weight_decay_end_ratio`; AdEMAMix, Prodigy and schedule-free
// keep the betas that they begin with. They are pure functions of the run's clock after the update
// (UpdateStep::run), so that the last update has the last values.
//
// A weight w whose step is -lr u decays by w <- w - lr wd w. With `optimizer.cautious_decay` (Chen
// et al. 2025, Cautious Weight Decay, 2510.12402) it does so only where u w > 0, that is, where the
// step goes towards zero. The paper has u w >= 0: weights whose step is exactly zero decay there,
// and do not here.
//
// Bias corrections use the beta of the update as if it had always been that, 1 - beta(t)^t, as
// torch.optim does under a scheduler that changes betas.
#pragma once

#include "config/config.h"
#include "optim/parameter_groups.h"
#include "schedule/run_clock.h"

namespace lmtrain {

class Hyperparameters {
 public:
  explicit Hyperparameters(const OptimizerConfig& config);

  // Returns entry i of optimizer.betas, counted from 0, at this update.
  double beta(size_t i, const RunClock& run) const;
  // Returns the weight decay of a group's tensors at this update.
  double weight_decay(const ParameterGroup& group, const RunClock& run) const;
  bool decays_cautiously() const { return cautious_decay_; }
  // Decays the weights `w` of a group in place, at its learning rate `lr`; `u` has their shape and
  // the sign of what is subtracted later. The fused kernels decay by themselves, to the same rule.
  void decay(const at::Tensor& w, const at::Tensor& u, double lr, const ParameterGroup& group,
             const RunClock& run) const;

 private:
  std::vector<double> betas_;
  std::vector<double> betas_end_;  // equal to betas_ where the config gives none
  double weight_decay_end_ratio_;
  EndShape shape_;
  bool cautious_decay_;
};

}  // namespace lmtrain
