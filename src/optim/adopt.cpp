#include "optim/adopt.h"

#include <cmath>

#include "device/torch_headers.h"

namespace lmtrain {

Adopt::Adopt(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes)
    : RangeRule(config, parameters, {"exp_avg", "exp_avg_sq"}, takes), eps_(config.eps) {}

void Adopt::update_range(const UpdateStep& step, const RangeView& view) {
  const at::Tensor m = moment(0, view), v = moment(1, view);
  if (step.number == 1) {
    v.copy_(view.g).square_();
    return;
  }
  const double beta2 = hyperparameters().beta(1);
  const double most = std::pow(static_cast<double>(step.number - 1), 0.25);
  const at::Tensor u = view.g.div(v.sqrt().clamp_min_(eps_)).clamp_(-most, most);
  m.lerp_(u, 1 - hyperparameters().beta(0));
  decay(view, m);
  view.w.sub_(m, view.lr);
  v.mul_(beta2).addcmul_(view.g, view.g, 1 - beta2);
}

}  // namespace lmtrain
