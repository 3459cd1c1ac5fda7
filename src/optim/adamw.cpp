#include "optim/adamw.h"

#include <cmath>

#include "ops/dispatch.h"
#include "ops/torch_headers.h"

namespace lmtrain {

AdamW::AdamW(const OptimizerConfig& config, Parameters& parameters)
    : beta1_(config.betas.at(0)),
      beta2_(config.betas.at(1)),
      eps_(config.eps),
      weight_decay_(config.weight_decay),
      parameters_(parameters),
      buffers_{{"exp_avg", at::zeros_like(parameters.master())},
               {"exp_avg_sq", at::zeros_like(parameters.master())}} {}

void AdamW::update(int64_t step, double lr, const at::Tensor& grad, double grad_scale) {
  if (grad.is_cpu()) {
    update_cpu(step, lr, grad, grad_scale);
  } else {
    update_aten(step, lr, grad, grad_scale);
  }
}

void AdamW::update_cpu(int64_t step, double lr, const at::Tensor& grad, double grad_scale) {
  AdamWConstants constants{};
  constants.lr = static_cast<float>(lr);
  constants.one_minus_beta1 = static_cast<float>(1.0 - beta1_);
  constants.one_minus_beta2 = static_cast<float>(1.0 - beta2_);
  constants.beta2 = static_cast<float>(beta2_);
  constants.eps = static_cast<float>(eps_);
  constants.bias_correction1 =
      static_cast<float>(1.0 - std::pow(beta1_, static_cast<double>(step)));
  constants.sqrt_bias_correction2 =
      static_cast<float>(std::sqrt(1.0 - std::pow(beta2_, static_cast<double>(step))));
  constants.grad_scale = static_cast<float>(grad_scale);
  const auto update_range = [&](int64_t first, int64_t last, double weight_decay) {
    constants.weight_decay = static_cast<float>(weight_decay);
    with_element_type(parameters_.working(), [&]<class T>(T) {
      at::parallel_for(first, last, grain_rows(1), [&](int64_t begin, int64_t end) {
        cpu_kernels<T>().adamw(elements<float>(parameters_.master()) + begin,
                               elements<float>(buffers_[0].values) + begin,
                               elements<float>(buffers_[1].values) + begin,
                               elements<float>(grad) + begin,
                               elements<T>(parameters_.working()) + begin, end - begin, constants);
      });
    });
  };
  const ParameterLayout& layout = parameters_.layout();
  update_range(0, layout.decayed_size(), weight_decay_);
  update_range(layout.decayed_size(), layout.flat_size(), 0.0);
}

void AdamW::update_aten(int64_t step, double lr, const at::Tensor& grad, double grad_scale) {
  const at::NoGradGuard no_grad;
  const at::Tensor scaled = grad_scale == 1.0 ? grad : grad.mul_(grad_scale);
  const ParameterLayout& layout = parameters_.layout();
  const auto update_range = [&](int64_t first, int64_t last, double weight_decay) {
    const auto range = [&](const at::Tensor& flat) { return flat.narrow(0, first, last - first); };
    // The operator takes the number of updates so far, this one included, as a tensor.
    const at::Tensor count = at::full({}, static_cast<double>(step), grad.options());
    at::_fused_adamw_({range(parameters_.master())}, {range(scaled)}, {range(buffers_[0].values)},
                      {range(buffers_[1].values)}, {}, {count}, lr, beta1_, beta2_, weight_decay,
                      eps_,
                      /*amsgrad=*/false, /*maximize=*/false);
  };
  update_range(0, layout.decayed_size(), weight_decay_);
  update_range(layout.decayed_size(), layout.flat_size(), 0.0);
  parameters_.refresh_working();
}

}  // namespace lmtrain
