// Betas and weight decay of an update: constant, or on their way over the run to
// `optimizer.betas_end` and `optimizer.weight_decay_end_ratio`. Pure functions of the run's
// clock, which counts the update itself, so that the last update has the last values.
//
// Bias corrections use the beta of the update as if it had always been that, 1 - beta(t)^t, as
// torch.optim does under a scheduler that changes betas.
#pragma once

#include "config/config.h"
#include "optim/optimizer.h"
#include "optim/parameter_groups.h"

namespace lmtrain {

class Hyperparameters {
 public:
  explicit Hyperparameters(const OptimizerConfig& config);

  // Entry i of optimizer.betas, from 0, at this update.
  double beta(size_t i, const RunClock& run) const;
  double weight_decay(const ParameterGroup& group, const RunClock& run) const;

 private:
  std::vector<double> betas_;
  std::vector<double> betas_end_;  // as long, but for ademamix, which has none
  double weight_decay_end_ratio_;
  EndShape shape_;
};

}  // namespace lmtrain
