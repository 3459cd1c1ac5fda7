#include "optim/adam.h"

#include "device/torch_headers.h"

namespace lmtrain {
namespace {

OptimizerConfig undecayed(OptimizerConfig config) {
  config.weight_decay = 0;
  for (OptimizerGroupConfig& group : config.groups) group.weight_decay = 0;
  return config;
}

}  // namespace

Adam::Adam(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes)
    : parameters_(parameters),
      ranges_(FlatMoments(config, parameters, {}, takes).ranges()),
      rule_(undecayed(config), parameters, takes) {}

void Adam::update(const UpdateStep& step, const at::Tensor& grad) {
  const at::NoGradGuard no_grad;
  for (const FlatRange& range : ranges_) {
    const at::Tensor g = range.of(grad);
    if (step.grad_scale != 1) g.mul_(step.grad_scale);
    const double decay = range.group.weight_decay;
    if (decay != 0) g.add_(range.of(parameters_.master()), decay);
  }
  rule_.update({step.number, step.lr, /*grad_scale=*/1, step.run}, grad);
}

}  // namespace lmtrain
