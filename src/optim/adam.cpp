// Updates by Adam with weight decay that is coupled, a part of the gradient (Kingma & Ba,
// 1412.6980; L2 regularisation), as torch.optim.Adam does:
//
//   g <- g + wd w      m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2
//   w <- w - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
//
// After the first line it is AdamW without decay. g is the gradient after clipping, and wd is not
// clipped. The state is exp_avg (m) and exp_avg_sq (v).
#include "device/torch_headers.h"
#include "optim/adamw.h"
#include "optim/make_optimizer.h"

namespace lmtrain {
namespace {

class Adam : public Optimizer {
 public:
  // Updates only the tensors for which `takes` returns true.
  Adam(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes);
  void update(const UpdateStep& step, const at::Tensor& grad) override;
  const std::vector<OptimizerBuffer>& buffers() const override { return rule_.buffers(); }

 private:
  Parameters& parameters_;
  std::vector<FlatRange> ranges_;  // with the decay of each
  AdamW rule_;                     // which does not decay
};

OptimizerConfig undecayed(OptimizerConfig config) {
  config.weight_decay = 0;
  for (OptimizerGroupConfig& group : config.groups) group.weight_decay = 0;
  return config;
}

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

}  // namespace

std::unique_ptr<Optimizer> make_adam(const OptimizerConfig& config, Parameters& parameters,
                                     const ParameterFilter& takes) {
  return std::make_unique<Adam>(config, parameters, takes);
}

}  // namespace lmtrain
