// Updates by AdEMAMix (Pagliardini et al., 2409.03137), which is AdamW with a second, slow
// momentum:
//
//   m1 <- b1 m1 + (1 - b1) g      m2 <- b3(t) m2 + (1 - b3(t)) g      v <- b2 v + (1 - b2) g^2
//   w  <- w - lr wd w - lr (m1 / (1 - b1^t) + alpha(t) m2) / (sqrt(v / (1 - b2^t)) + eps)
//
// m2 has no bias correction. alpha grows linearly from 0, b3 from b1 linearly in its half-life
// (schedule/lr_schedule.h). The state is exp_avg (m1), exp_avg_slow (m2) and exp_avg_sq (v).
#include <cmath>

#include "device/torch_headers.h"
#include "optim/elementwise_rule.h"
#include "optim/make_optimizer.h"
#include "schedule/lr_schedule.h"

namespace lmtrain {
namespace {

struct AdEMAMixKernel {
  using Constants = AdEMAMixConstants;
  static constexpr size_t kNumMoments = 3;

  template <class T>
  static auto cpu() {
    return cpu_kernels<T>().ademamix;
  }
  template <class... Args>
  static void launch(const Args&... args) {
    cuda::ademamix(args...);
  }
};

class AdEMAMix : public ElementwiseRule<AdEMAMixKernel> {
 public:
  // Updates only the tensors for which `takes` returns true.
  AdEMAMix(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes);

 private:
  double alpha_at(const RunClock& run) const;
  double beta3_at(const RunClock& run) const;
  Constants numbers(const UpdateStep& step) const override;
  void update_range(const UpdateStep& step, const RangeView& view) override;

  double eps_, alpha_;
  TrainingDuration alpha_warmup_, beta3_warmup_;
};

AdEMAMix::AdEMAMix(const OptimizerConfig& config, Parameters& parameters,
                   const ParameterFilter& takes)
    : ElementwiseRule(config, parameters, {"exp_avg", "exp_avg_slow", "exp_avg_sq"}, takes),
      eps_(config.eps),
      alpha_(config.alpha),
      alpha_warmup_(config.alpha_warmup),
      beta3_warmup_(config.beta3_warmup) {}

double AdEMAMix::alpha_at(const RunClock& run) const {
  return linear_warmup(0, alpha_, run.done(), run.resolve(alpha_warmup_));
}

double AdEMAMix::beta3_at(const RunClock& run) const {
  return half_life_warmup(hyperparameters().beta(0), hyperparameters().beta(2), run.done(),
                          run.resolve(beta3_warmup_));
}

AdEMAMixConstants AdEMAMix::numbers(const UpdateStep& step) const {
  const auto t = static_cast<double>(step.number);
  const double beta1 = hyperparameters().beta(0), beta2 = hyperparameters().beta(1);
  AdEMAMixConstants constants{};
  constants.one_minus_beta1 = static_cast<float>(1.0 - beta1);
  constants.one_minus_beta2 = static_cast<float>(1.0 - beta2);
  constants.one_minus_beta3 = static_cast<float>(1.0 - beta3_at(step.run));
  constants.beta2 = static_cast<float>(beta2);
  constants.alpha = static_cast<float>(alpha_at(step.run));
  constants.eps = static_cast<float>(eps_);
  constants.inverse_bias_correction1 = static_cast<float>(1.0 / (1.0 - std::pow(beta1, t)));
  constants.sqrt_bias_correction2 = static_cast<float>(std::sqrt(1.0 - std::pow(beta2, t)));
  return constants;
}

void AdEMAMix::update_range(const UpdateStep& step, const RangeView& view) {
  const auto t = static_cast<double>(step.number);
  const double beta1 = hyperparameters().beta(0), beta2 = hyperparameters().beta(1);
  const at::Tensor fast = moment(0, view), slow = moment(1, view), square = moment(2, view);
  fast.lerp_(view.g, 1 - beta1);
  slow.lerp_(view.g, 1 - beta3_at(step.run));
  square.mul_(beta2).addcmul_(view.g, view.g, 1 - beta2);
  const at::Tensor root = square.sqrt().div_(std::sqrt(1 - std::pow(beta2, t))).add_(eps_);
  const at::Tensor mix = fast.div(1 - std::pow(beta1, t)).add_(slow, alpha_at(step.run));
  decay(view, mix);
  view.w.addcdiv_(mix, root, -view.lr);
}

}  // namespace

std::unique_ptr<Optimizer> make_ademamix(const OptimizerConfig& config, Parameters& parameters,
                                         const ParameterFilter& takes) {
  return std::make_unique<AdEMAMix>(config, parameters, takes);
}

}  // namespace lmtrain
