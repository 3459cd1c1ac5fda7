#include "optim/lion.h"

#include "device/torch_headers.h"

namespace lmtrain {

Lion::Lion(const OptimizerConfig& config, Parameters& parameters)
    : hyperparameters_(config),
      parameters_(parameters),
      moments_(config, parameters, {"exp_avg"}, every_parameter),
      constants_(moments_.ranges().size(), parameters.master().device()) {}

CapturableUpdate* Lion::capturable() { return has_fused_update(parameters_) ? this : nullptr; }

void Lion::update(const UpdateStep& step, const at::Tensor& grad) {
  if (!has_fused_update(parameters_)) return update_aten(step, grad);
  set_constants(step);
  apply(grad);
}

void Lion::set_constants(const UpdateStep& step) {
  LionConstants constants{};
  constants.one_minus_beta1 = static_cast<float>(1.0 - hyperparameters_.beta(0, step.run));
  constants.one_minus_beta2 = static_cast<float>(1.0 - hyperparameters_.beta(1, step.run));
  constants.grad_scale = static_cast<float>(step.grad_scale);
  constants_.set(constants, moments_.ranges(), hyperparameters_, step);
}

void Lion::apply(const at::Tensor& grad) {
  for (size_t i = 0; i < moments_.ranges().size(); ++i) {
    const FlatRange& range = moments_.ranges()[i];
    const LionConstants* constants = constants_.of(i);
    on_cpu(parameters_.working(), [&]<class T>(T) {
      for_each_piece(range, [&](int64_t place, int64_t moment, int64_t count) {
        cpu_kernels<T>().lion(elements<float>(parameters_.master()) + place,
                              elements<float>(moments_.moment(0)) + moment,
                              elements<float>(grad) + place,
                              elements<T>(parameters_.working()) + place, count, *constants);
      });
    });
    on_cuda(parameters_.working(), [&](const auto& call) {
      cuda::lion(call, elements<float>(range.of(parameters_.master())),
                 elements<float>(moments_.moment(0, range)), elements<float>(range.of(grad)),
                 range.of(parameters_.working()).data_ptr(), range.size, constants);
    });
  }
}

void Lion::update_aten(const UpdateStep& step, const at::Tensor& grad) {
  const at::NoGradGuard no_grad;
  const double beta1 = hyperparameters_.beta(0, step.run);
  const double beta2 = hyperparameters_.beta(1, step.run);
  for (const FlatRange& range : moments_.ranges()) {
    const double lr = step.lr * range.group.lr_ratio;
    const at::Tensor w = range.of(parameters_.master());
    const at::Tensor m = moments_.moment(0, range);
    const at::Tensor g = range.of(grad);
    if (step.grad_scale != 1) g.mul_(step.grad_scale);
    w.mul_(1 - lr * hyperparameters_.weight_decay(range.group, step.run));
    w.sub_(m.lerp(g, 1 - beta1).sign_(), lr);
    m.lerp_(g, 1 - beta2);
    parameters_.refresh_working(range.first, range.size);
  }
}

}  // namespace lmtrain
