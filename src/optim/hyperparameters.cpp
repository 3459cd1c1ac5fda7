#include "optim/hyperparameters.h"

#include "device/torch_headers.h"

namespace lmtrain {

Hyperparameters::Hyperparameters(const OptimizerConfig& config)
    : betas_(config.betas), cautious_decay_(config.cautious_decay) {}

void Hyperparameters::decay(const at::Tensor& w, const at::Tensor& u, double lr,
                            const ParameterGroup& group) const {
  const double amount = lr * group.weight_decay;
  if (!cautious_decay_) {
    w.mul_(1 - amount);
  } else if (amount != 0) {
    w.addcmul_(w, u.mul(w).gt_(0), -amount);
  }
}

}  // namespace lmtrain
