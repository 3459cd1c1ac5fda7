// Updates by AdEMAMix (Pagliardini et al., 2409.03137), which is AdamW with a second, slow
// momentum:
//
//   m1 <- b1 m1 + (1 - b1) g      m2 <- b3(t) m2 + (1 - b3(t)) g      v <- b2 v + (1 - b2) g^2
//   w  <- w - lr wd w - lr (m1 / (1 - b1^t) + alpha(t) m2) / (sqrt(v / (1 - b2^t)) + eps)
//
// m2 has no bias correction. alpha grows linearly from 0, b3 from b1 linearly in its half-life
// (schedule/warmup.h). The state is exp_avg (m1), exp_avg_slow (m2) and exp_avg_sq (v).
#pragma once

#include "optim/elementwise_rule.h"

namespace lmtrain {

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
  void update_aten(const UpdateStep& step, const at::Tensor& grad) override;

  double beta1_, beta2_, beta3_, eps_, alpha_;
  TrainingDuration alpha_warmup_, beta3_warmup_;
};

}  // namespace lmtrain
