#include "optim/hyperparameters.h"

#include "device/torch_headers.h"
#include "schedule/transition.h"

namespace lmtrain {

Hyperparameters::Hyperparameters(const OptimizerConfig& config)
    : betas_(config.betas),
      betas_end_(config.betas_end.empty() ? config.betas : config.betas_end),
      weight_decay_end_ratio_(config.weight_decay_end_ratio),
      shape_(config.end_shape),
      cautious_decay_(config.cautious_decay) {}

double Hyperparameters::beta(size_t i, const RunClock& run) const {
  return transition(shape_, betas_.at(i), betas_end_.at(i), run.done(), run.total);
}

double Hyperparameters::weight_decay(const ParameterGroup& group, const RunClock& run) const {
  return group.weight_decay * transition(shape_, 1, weight_decay_end_ratio_, run.done(), run.total);
}

void Hyperparameters::decay(const at::Tensor& w, const at::Tensor& u, double lr,
                            const ParameterGroup& group, const RunClock& run) const {
  const double amount = lr * weight_decay(group, run);
  if (!cautious_decay_) {
    w.mul_(1 - amount);
  } else if (amount != 0) {
    w.addcmul_(w, u.mul(w).gt_(0), -amount);
  }
}

}  // namespace lmtrain
