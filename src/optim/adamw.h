// AdamW (Loshchilov & Hutter, 1711.05101), as torch.optim.AdamW:
//
//   m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2
//   w <- w - lr wd w - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
//
// State: exp_avg (m), exp_avg_sq (v).
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
  // For the tensors that `takes` says: Muon leaves it the others.
  AdamW(const OptimizerConfig& config, Parameters& parameters,
        const ParameterFilter& takes = every_parameter);

 private:
  Constants numbers(const UpdateStep& step) const override;
  void update_aten(const UpdateStep& step, const at::Tensor& grad) override;

  double eps_;
};

}  // namespace lmtrain
