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
  void update_range(const UpdateStep& step, const RangeView& view) override;
};

Lion::Lion(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes)
    : ElementwiseRule(config, parameters, {"exp_avg"}, takes) {}

LionConstants Lion::numbers(const UpdateStep& /*step*/) const {
  LionConstants constants{};
  constants.one_minus_beta1 = static_cast<float>(1.0 - hyperparameters().beta(0));
  constants.one_minus_beta2 = static_cast<float>(1.0 - hyperparameters().beta(1));
  return constants;
}

void Lion::update_range(const UpdateStep& /*step*/, const RangeView& view) {
  const at::Tensor m = moment(0, view);
  const at::Tensor u = m.lerp(view.g, 1 - hyperparameters().beta(0)).sign_();
  decay(view, u);
  view.w.sub_(u, view.lr);
  m.lerp_(view.g, 1 - hyperparameters().beta(1));
}

}  // namespace

std::unique_ptr<Optimizer> make_lion(const OptimizerConfig& config, Parameters& parameters,
                                     const ParameterFilter& takes) {
  return std::make_unique<Lion>(config, parameters, takes);
}

}  // namespace lmtrain
