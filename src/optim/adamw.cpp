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

void AdamW::update_range(const UpdateStep& step, const RangeView& view) {
  const at::Tensor m = moment(0, view);
  const double beta1 = hyperparameters().beta(0);
  double weight_decay = view.range.group.weight_decay;
  if (hyperparameters().decays_cautiously()) {
    // The step has the sign of the momentum that the operator computes too.
    decay(view, m.lerp(view.g, 1 - beta1));
    weight_decay = 0;
  }
  // The operator takes the number of updates so far, this one included, as a tensor.
  const at::Tensor count = at::full({}, static_cast<double>(step.number), view.g.options());
  at::_fused_adamw_({view.w}, {view.g}, {m}, {moment(1, view)}, {}, {count}, view.lr, beta1,
                    hyperparameters().beta(1), weight_decay, eps_, /*amsgrad=*/false,
                    /*maximize=*/false);
}

std::unique_ptr<Optimizer> make_adamw(const OptimizerConfig& config, Parameters& parameters,
                                      const ParameterFilter& takes) {
  return std::make_unique<AdamW>(config, parameters, takes);
}

}  // namespace lmtrain
