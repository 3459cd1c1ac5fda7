#include "optim/elementwise/prodigy.h"

#include <cmath>

#include "device/torch_headers.h"

namespace lmtrain {

Prodigy::Prodigy(const OptimizerConfig& config, Parameters& parameters,
                 const ParameterFilter& takes)
    : RangeRule(config, parameters, {"exp_avg", "exp_avg_sq", "s", "initial"}, takes),
      beta1_(config.betas.at(0)),
      beta2_(config.betas.at(1)),
      eps_(config.eps),
      d0_(config.d0),
      d_coef_(config.d_coef),
      parameters_(parameters),
      d_r_(at::zeros({2}, parameters.master().options())),
      buffers_(RangeRule::buffers()) {
  buffers_.push_back({"d_r", d_r_});
}

void Prodigy::update(const UpdateStep& step, const at::Tensor& grad) {
  const at::NoGradGuard no_grad;
  const at::Tensor held = d_r_.to(at::kCPU, at::kDouble);
  d_ = held[0].item<double>();
  double r = held[1].item<double>();
  if (d_ == 0) d_ = d0_;
  const double beta3 = std::sqrt(beta2_);
  const double amount = d_ / d0_ * d_ * step.lr;
  const at::Tensor sums = at::zeros({2}, grad.options().dtype(at::kDouble));  // <g, w0 - w>, |s|_1
  for (const FlatRange& range : ranges()) {
    const at::Tensor w = range.of(parameters_.master()), g = range.of(grad);
    const at::Tensor m = moments().moment(0, range), v = moments().moment(1, range);
    const at::Tensor s = moments().moment(2, range), initial = moments().moment(3, range);
    if (step.number == 1) initial.copy_(w);
    if (step.grad_scale != 1) g.mul_(step.grad_scale);
    sums[0].add_((initial - w).mul_(g).sum(at::kDouble));
    s.mul_(beta3).add_(g, amount);
    sums[1].add_(s.abs().sum(at::kDouble));
    m.mul_(beta1_).add_(g, d_ * (1 - beta1_));
    v.mul_(beta2_).addcmul_(g, g, d_ * d_ * (1 - beta2_));
  }
  const at::Tensor known = sums.cpu();
  const double length = known[1].item<double>();
  if (length == 0) return;  // no gradient yet
  r = beta3 * r + amount * known[0].item<double>();
  next_d_ = std::max(d_, d_coef_ * r / length);
  RangeRule::update({step.number, step.lr, /*grad_scale=*/1, step.run}, grad);
  d_r_[0].fill_(next_d_);
  d_r_[1].fill_(r);
}

void Prodigy::update_range(const UpdateStep& step, const RangeView& view) {
  const at::Tensor m = moment(0, view);
  const at::Tensor root = moment(1, view).sqrt().add_(next_d_ * eps_);
  const RangeView scaled{view.range, d_ * view.lr, view.w, view.g};
  decay(scaled, m, step);
  view.w.addcdiv_(m, root, -scaled.lr);
}

}  // namespace lmtrain
