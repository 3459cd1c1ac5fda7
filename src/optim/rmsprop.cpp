#include "optim/rmsprop.h"

#include "device/torch_headers.h"

namespace lmtrain {

RmsProp::RmsProp(const OptimizerConfig& config, Parameters& parameters,
                 const ParameterFilter& takes)
    : RangeRule(config, parameters, {"exp_avg_sq"}, takes), eps_(config.eps) {}

void RmsProp::update_range(const UpdateStep& /*step*/, const RangeView& view) {
  const at::Tensor v = moment(0, view);
  const double beta = hyperparameters().beta(0);
  v.mul_(beta).addcmul_(view.g, view.g, 1 - beta);
  const at::Tensor root = v.sqrt().add_(eps_);
  decay(view, view.g);
  view.w.addcdiv_(view.g, root, -view.lr);
}

}  // namespace lmtrain
