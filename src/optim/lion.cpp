#include "optim/lion.h"

#include "device/torch_headers.h"

namespace lmtrain {

Lion::Lion(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes)
    : ElementwiseRule(config, parameters, {"exp_avg"}, takes) {}

LionConstants Lion::numbers(const UpdateStep& /*step*/) const {
  LionConstants constants{};
  constants.one_minus_beta1 = static_cast<float>(1.0 - hyperparameters().beta(0));
  constants.one_minus_beta2 = static_cast<float>(1.0 - hyperparameters().beta(1));
  return constants;
}

void Lion::update_aten(const UpdateStep& step, const at::Tensor& grad) {
  const at::NoGradGuard no_grad;
  const double beta1 = hyperparameters().beta(0);
  const double beta2 = hyperparameters().beta(1);
  for (const FlatRange& range : moments().ranges()) {
    const double lr = step.lr * range.group.lr_ratio;
    const at::Tensor w = range.of(parameters().master());
    const at::Tensor m = moments().moment(0, range);
    const at::Tensor g = range.of(grad);
    if (step.grad_scale != 1) g.mul_(step.grad_scale);
    const at::Tensor u = m.lerp(g, 1 - beta1).sign_();
    hyperparameters().decay(w, u, lr, range.group);
    w.sub_(u, lr);
    m.lerp_(g, 1 - beta2);
    parameters().refresh_working(range.first, range.size);
  }
}

}  // namespace lmtrain
