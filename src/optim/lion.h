// Updates by Lion (Chen et al., 2302.06675):
//
//   w <- w - lr wd w - lr sign(b1 m + (1 - b1) g)
//   m <- b2 m + (1 - b2) g
//
// Every weight moves by lr, so lr is 3 to 10 times smaller than AdamW's and weight decay as much
// larger. The state is exp_avg (m).
#pragma once

#include "optim/elementwise_rule.h"

namespace lmtrain {

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

}  // namespace lmtrain
