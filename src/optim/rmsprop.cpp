// Updates by RMSProp (Tieleman & Hinton 2012, lecture 6e), as torch.optim.RMSprop does, with
// decoupled weight decay instead of its coupled one:
//
//   v <- b v + (1 - b) g^2      w <- w - lr wd w - lr g / (sqrt(v) + eps)
//
// There is no momentum, and v, which begins at 0, has no bias correction: the first steps are up to
// 1 / sqrt(1 - b) times lr. b is the only one of betas. The state is exp_avg_sq (v).
#include "device/torch_headers.h"
#include "optim/make_optimizer.h"
#include "optim/range_rule.h"

namespace lmtrain {
namespace {

class RmsProp : public RangeRule {
 public:
  // Updates only the tensors for which `takes` returns true.
  RmsProp(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes);

 private:
  void update_range(const UpdateStep& step, const RangeView& view) override;

  double eps_;
};

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

}  // namespace

std::unique_ptr<Optimizer> make_rmsprop(const OptimizerConfig& config, Parameters& parameters,
                                        const ParameterFilter& takes) {
  return std::make_unique<RmsProp>(config, parameters, takes);
}

}  // namespace lmtrain
