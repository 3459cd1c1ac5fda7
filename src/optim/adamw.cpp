#include "optim/adamw.h"

#include <cmath>

#include "device/torch_headers.h"
#include "optim/make_optimizer.h"

namespace lmtrain {

AdamW::AdamW(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes)
    : ElementwiseRule(config, parameters, {"exp_avg", "exp_avg_sq"}, takes), eps_(config.eps) {}

AdamWConstants AdamW::numbers(const UpdateStep& step) const {
  const auto t = static_cast<double>(step.number);
  const double beta1 = hyperparameters().beta(0);
  const double beta2 = hyperparameters().beta(1);
  AdamWConstants constants{};
  constants.one_minus_beta1 = static_cast<float>(1.0 - beta1);
  constants.one_minus_beta2 = static_cast<float>(1.0 - beta2);
  constants.beta2 = static_cast<float>(beta2);
  constants.eps = static_cast<float>(eps_);
  constants.bias_correction1 = static_cast<float>(1.0 - std::pow(beta1, t));
  constants.sqrt_bias_correction2 = static_cast<float>(std::sqrt(1.0 - std::pow(beta2, t)));
  return constants;
}

void AdamW::update_aten(const UpdateStep& step, const at::Tensor& grad) {
  const at::NoGradGuard no_grad;
  // The operator takes the number of updates so far, this one included, as a tensor.
  const at::Tensor count = at::full({}, static_cast<double>(step.number), grad.options());
  for (const FlatRange& range : moments().ranges()) {
    const at::Tensor g = range.of(grad);
    if (step.grad_scale != 1) g.mul_(step.grad_scale);
    const at::Tensor w = range.of(parameters().master());
    const at::Tensor m = moments().moment(0, range);
    const double lr = step.lr * range.group.lr_ratio;
    const double beta1 = hyperparameters().beta(0);
    double decay = range.group.weight_decay;
    if (hyperparameters().decays_cautiously()) {
      // The step has the sign of the momentum that the operator computes too.
      hyperparameters().decay(w, m.lerp(g, 1 - beta1), lr, range.group);
      decay = 0;
    }
    at::_fused_adamw_({w}, {g}, {m}, {moments().moment(1, range)}, {}, {count}, lr, beta1,
                      hyperparameters().beta(1), decay, eps_, /*amsgrad=*/false,
                      /*maximize=*/false);
    parameters().refresh_working(range.first, range.size);
  }
}

std::unique_ptr<Optimizer> make_adamw(const OptimizerConfig& config, Parameters& parameters,
                                      const ParameterFilter& takes) {
  return std::make_unique<AdamW>(config, parameters, takes);
}

}  // namespace lmtrain
