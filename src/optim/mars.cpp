#include "optim/mars.h"

#include "device/torch_headers.h"
#include "optim/clip.h"

namespace lmtrain {
namespace {

// Divides by the norm where that is above 1. On a CPU its bits do not depend on the number of
// threads; elsewhere it is not waited for.
void limit_norm(const at::Tensor& c) {
  if (c.is_cpu() && c.scalar_type() == at::kFloat) {
    const double norm = l2_norm(c);
    if (norm > 1) c.div_(norm);
    return;
  }
  c.div_(at::linalg_vector_norm(c, 2, {}, /*keepdim=*/false, at::kDouble)
             .clamp_min_(1)
             .to(c.scalar_type()));
}

}  // namespace

Mars::Mars(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes)
    : hyperparameters_(config),
      gamma_(config.gamma),
      last_(config, parameters, {"last_grad"}, takes),
      rule_(config, parameters, takes),
      buffers_(last_.buffers()) {
  for (const ParameterSpec& spec : parameters.layout().parameters())
    if (takes(spec)) specs_.push_back(spec);
  buffers_.insert(buffers_.end(), rule_.buffers().begin(), rule_.buffers().end());
}

void Mars::update(const UpdateStep& step, const at::Tensor& grad) {
  const at::NoGradGuard no_grad;
  const double beta1 = hyperparameters_.beta(0);
  for (const FlatRange& range : last_.ranges()) {
    const at::Tensor g = range.of(grad), last = last_.moment(0, range);
    if (step.grad_scale != 1) g.mul_(step.grad_scale);
    const at::Tensor change = g - last;
    last.copy_(g);
    g.add_(change, gamma_ * beta1 / (1 - beta1));
  }
  for (const ParameterSpec& spec : specs_) limit_norm(grad.narrow(0, spec.offset, spec.numel()));
  rule_.update({step.number, step.lr, /*grad_scale=*/1, step.run}, grad);
}

}  // namespace lmtrain
