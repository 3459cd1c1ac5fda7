#include "optim/hyperparameters.h"

#include "schedule/transition.h"

namespace lmtrain {

Hyperparameters::Hyperparameters(const OptimizerConfig& config)
    : betas_(config.betas),
      betas_end_(config.betas_end.empty() ? config.betas : config.betas_end),
      weight_decay_end_ratio_(config.weight_decay_end_ratio),
      shape_(config.end_shape) {}

double Hyperparameters::beta(size_t i, const RunClock& run) const {
  return transition(shape_, betas_.at(i), betas_end_.at(i), run.done(), run.total);
}

double Hyperparameters::weight_decay(const ParameterGroup& group, const RunClock& run) const {
  return group.weight_decay * transition(shape_, 1, weight_decay_end_ratio_, run.done(), run.total);
}

}  // namespace lmtrain
