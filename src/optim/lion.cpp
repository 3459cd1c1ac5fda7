// Updates by Lion (Chen et al., 2302.06675):
//
//   w <- w - lr wd w - lr sign(b1 m + (1 - b1) g)
//   m <- b2 m + (1 - b2) g
//
// Every weight moves by lr, so lr is 3 to 10 times smaller than AdamW's and weight decay as much
// larger. The state is exp_avg (m).
#include "device/torch_headers.h"
#include "optim/elementwise_rule.h"
#include "optim/make_optimizer.h"

namespace lmtrain {
namespace {

struct LionKernel {
  using Constants = LionConstants;
  static constexpr size_t kNumMoments = 1;

  template <class T>
  static auto cpu() {
    return cpu_kernels<T>().lion;
  }
  template <class... Args>
  static void launch(const Args&... args) {
    cuda::lion(args...);
  }
};

class Lion : public ElementwiseRule<LionKernel> {
 public:
  // Updates only the tensors for which `takes` returns true.
  Lion(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes);

 private:
  Constants numbers(const UpdateStep& step) const override;
  void update_aten(const UpdateStep& step, const at::Tensor& grad) override;
};

Lion::Lion(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes)
    : ElementwiseRule(config, parameters, {"exp_avg"}, takes) {}

LionConstants Lion::numbers(const UpdateStep& /*step*/) const {
  LionConstants constants{};
  constants.one_minus_beta1 = static_cast<float>(1.0 - hyperparameters().beta(0));
  constants.one_minus_beta2 = static_cast<float>(1.0 - hyperparameters().beta(1));
  return constants;
}

void Lion::update_aten(const UpdateStep& step, const at::Tensor& grad) {
  const at::NoGradGuard no_grad;
  const double beta1 = hyperparameters().beta(0);
  const double beta2 = hyperparameters().beta(1);
  for (const FlatRange& range : moments().ranges()) {
    const double lr = step.lr * range.group.lr_ratio;
    const at::Tensor w = range.of(parameters().master());
    const at::Tensor m = moments().moment(0, range);
    const at::Tensor g = range.of(grad);
    if (step.grad_scale != 1) g.mul_(step.grad_scale);
    const at::Tensor u = m.lerp(g, 1 - beta1).sign_();
    hyperparameters().decay(w, u, lr, range.group);
    w.sub_(u, lr);
    m.lerp_(g, 1 - beta2);
    parameters().refresh_working(range.first, range.size);
  }
}

}  // namespace

std::unique_ptr<Optimizer> make_lion(const OptimizerConfig& config, Parameters& parameters,
                                     const ParameterFilter& takes) {
  return std::make_unique<Lion>(config, parameters, takes);
}

}  // namespace lmtrain
