// Updates by ADOPT (Taniguchi et al., 2411.02853), which is Adam whose gradient is divided by the
// second moment of the gradients before it, and averaged after that:
//
//   update 1:  v <- g^2, and no weight moves
//   u  = g / max(sqrt(v), eps), clipped to [-c, c]      c = (t - 1)^(1/4)
//   m <- b1 m + (1 - b1) u      w <- w - lr wd w - lr m      v <- b2 v + (1 - b2) g^2
//
// It is the variant with clipping, as in the authors' code, whose decoupled decay it has. t is the
// number of the update. The state is exp_avg (m) and exp_avg_sq (v).
#include <cmath>

#include "device/torch_headers.h"
#include "optim/make_optimizer.h"
#include "optim/range_rule.h"

namespace lmtrain {
namespace {

class Adopt : public RangeRule {
 public:
  // Updates only the tensors for which `takes` returns true.
  Adopt(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes);

  int64_t scratch_bytes() const override { return 2 * largest_range_bytes(); }

 private:
  void update_range(const UpdateStep& step, const RangeView& view) override;

  double eps_;
};

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

}  // namespace

std::unique_ptr<Optimizer> make_adopt(const OptimizerConfig& config, Parameters& parameters,
                                      const ParameterFilter& takes) {
  return std::make_unique<Adopt>(config, parameters, takes);
}

}  // namespace lmtrain
