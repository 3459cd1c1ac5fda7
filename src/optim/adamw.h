// Updates by AdamW (Loshchilov & Hutter, 1711.05101), as torch.optim.AdamW does:
//
//   m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2
//   w <- w - lr wd w - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
//
// The state is exp_avg (m) and exp_avg_sq (v); b1 and b2 are betas, wd is the weight decay, t is
// the number of the update, from 1.
#pragma once

#include "optim/elementwise_rule.h"

namespace lmtrain {

struct AdamWKernel {
  using Constants = AdamWConstants;
  static constexpr size_t kNumMoments = 2;

  template <class T>
  static auto cpu() {
    return cpu_kernels<T>().adamw;
  }
  template <class... Args>
  static void launch(const Args&... args) {
    cuda::adamw(args...);
  }
};

class AdamW : public ElementwiseRule<AdamWKernel> {
 public:
  // Updates only the tensors for which `takes` returns true.
  AdamW(const OptimizerConfig& config, Parameters& parameters,
        const ParameterFilter& takes = every_parameter);

 private:
  Constants numbers(const UpdateStep& step) const override;
  void update_range(const UpdateStep& step, const RangeView& view) override;

  double eps_;
};

}  // namespace lmtrain
