// AdamW (Loshchilov & Hutter, 1711.05101), as torch.optim.AdamW:
//
//   m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2
//   w <- w - lr wd w - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
//
// State: exp_avg (m), exp_avg_sq (v).
#pragma once

#include "optim/flat_moments.h"
#include "optim/hyperparameters.h"
#include "optim/update_constants.h"

namespace lmtrain {

class AdamW : public Optimizer, private CapturableUpdate {
 public:
  // For the tensors that `takes` says: Muon leaves it the others.
  AdamW(const OptimizerConfig& config, Parameters& parameters,
        const ParameterFilter& takes = every_parameter);
  void update(const UpdateStep& step, const at::Tensor& grad) override;
  CapturableUpdate* capturable() override;
  const std::vector<OptimizerBuffer>& buffers() const override { return moments_.buffers(); }

 private:
  void set_constants(const UpdateStep& step) override;
  void apply(const at::Tensor& grad) override;
  void update_aten(const UpdateStep& step, const at::Tensor& grad);

  Hyperparameters hyperparameters_;
  double eps_;
  Parameters& parameters_;
  FlatMoments moments_;
  UpdateConstants<AdamWConstants> constants_;
};

}  // namespace lmtrain
