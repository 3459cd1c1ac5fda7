// Updates by SGD with momentum (Polyak 1964; Sutskever et al. 2013), as torch.optim.SGD does, with
// decoupled weight decay (SGDW, Loshchilov & Hutter, 1711.05101) instead of its coupled one:
//
//   m <- mu m + g       u = g + mu m  with Nesterov, else m
//   w <- w - lr wd w - lr u
//
// g is not multiplied by 1 - mu, so a step is up to 1 / (1 - mu) times lr g. The state is
// momentum_buffer (m).
#include "device/torch_headers.h"
#include "optim/make_optimizer.h"
#include "optim/range_rule.h"

namespace lmtrain {
namespace {

class Sgd : public RangeRule {
 public:
  // Updates only the tensors for which `takes` returns true.
  Sgd(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes);

 private:
  void update_range(const UpdateStep& step, const RangeView& view) override;

  double momentum_;
  bool nesterov_;
};

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

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerConfig& config, Parameters& parameters,
                                    const ParameterFilter& takes) {
  return std::make_unique<Sgd>(config, parameters, takes);
}

}  // namespace lmtrain
