#include "optim/adamw.h"

#include <cmath>

#include "device/torch_headers.h"

namespace lmtrain {

AdamW::AdamW(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes)
    : hyperparameters_(config),
      eps_(config.eps),
      parameters_(parameters),
      moments_(config, parameters, {"exp_avg", "exp_avg_sq"}, takes),
      constants_(moments_.ranges().size(), parameters.master().device()) {}

CapturableUpdate* AdamW::capturable() { return has_fused_update(parameters_) ? this : nullptr; }

void AdamW::update(const UpdateStep& step, const at::Tensor& grad) {
  if (!has_fused_update(parameters_)) return update_aten(step, grad);
  set_constants(step);
  apply(grad);
}

void AdamW::set_constants(const UpdateStep& step) {
  const auto t = static_cast<double>(step.number);
  const double beta1 = hyperparameters_.beta(0, step.run);
  const double beta2 = hyperparameters_.beta(1, step.run);
  AdamWConstants constants{};
  constants.one_minus_beta1 = static_cast<float>(1.0 - beta1);
  constants.one_minus_beta2 = static_cast<float>(1.0 - beta2);
  constants.beta2 = static_cast<float>(beta2);
  constants.eps = static_cast<float>(eps_);
  constants.bias_correction1 = static_cast<float>(1.0 - std::pow(beta1, t));
  constants.sqrt_bias_correction2 = static_cast<float>(std::sqrt(1.0 - std::pow(beta2, t)));
  constants.grad_scale = static_cast<float>(step.grad_scale);
  constants_.set(constants, moments_.ranges(), hyperparameters_, step);
}

void AdamW::apply(const at::Tensor& grad) {
  for (size_t i = 0; i < moments_.ranges().size(); ++i) {
    const FlatRange& range = moments_.ranges()[i];
    const AdamWConstants* constants = constants_.of(i);
    on_cpu(parameters_.working(), [&]<class T>(T) {
      for_each_piece(range, [&](int64_t place, int64_t moment, int64_t count) {
        cpu_kernels<T>().adamw(elements<float>(parameters_.master()) + place,
                               elements<float>(moments_.moment(0)) + moment,
                               elements<float>(moments_.moment(1)) + moment,
                               elements<float>(grad) + place,
                               elements<T>(parameters_.working()) + place, count, *constants);
      });
    });
    on_cuda(parameters_.working(), [&](const auto& call) {
      cuda::adamw(call, elements<float>(range.of(parameters_.master())),
                  elements<float>(moments_.moment(0, range)),
                  elements<float>(moments_.moment(1, range)), elements<float>(range.of(grad)),
                  range.of(parameters_.working()).data_ptr(), range.size, constants);
    });
  }
}

void AdamW::update_aten(const UpdateStep& step, const at::Tensor& grad) {
  const at::NoGradGuard no_grad;
  // The operator takes the number of updates so far, this one included, as a tensor.
  const at::Tensor count = at::full({}, static_cast<double>(step.number), grad.options());
  for (const FlatRange& range : moments_.ranges()) {
    const at::Tensor g = range.of(grad);
    if (step.grad_scale != 1) g.mul_(step.grad_scale);
    at::_fused_adamw_({range.of(parameters_.master())}, {g}, {moments_.moment(0, range)},
                      {moments_.moment(1, range)}, {}, {count}, step.lr * range.group.lr_ratio,
                      hyperparameters_.beta(0, step.run), hyperparameters_.beta(1, step.run),
                      hyperparameters_.weight_decay(range.group, step.run), eps_, /*amsgrad=*/false,
                      /*maximize=*/false);
    parameters_.refresh_working(range.first, range.size);
  }
}

}  // namespace lmtrain
