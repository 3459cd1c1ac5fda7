#include "optim/sgd.h"

#include "device/torch_headers.h"

namespace lmtrain {

Sgd::Sgd(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes)
    : RangeRule(config, parameters, {"momentum_buffer"}, takes),
      momentum_(config.momentum),
      nesterov_(config.nesterov) {}

void Sgd::update_range(const UpdateStep& /*step*/, const RangeView& view) {
  const at::Tensor m = moment(0, view);
  m.mul_(momentum_).add_(view.g);
  const at::Tensor u = nesterov_ ? view.g.add(m, momentum_) : m;
  decay(view, u);
  view.w.sub_(u, view.lr);
}

}  // namespace lmtrain
