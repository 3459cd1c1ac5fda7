// AdamW (Loshchilov & Hutter, 1711.05101), as torch.optim.AdamW:
//
//   m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2
//   w <- w - lr wd w - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
//
// Weight decay wd applies to tensors of two or more dimensions, embeddings included. State: exp_avg
// (m), exp_avg_sq (v).
#pragma once

#include "optim/optimizer.h"

namespace lmtrain {

class AdamW : public Optimizer {
 public:
  AdamW(const OptimizerConfig& config, Parameters& parameters);
  void update(int64_t step, double lr, const at::Tensor& grad, double grad_scale) override;
  const std::vector<OptimizerBuffer>& buffers() const override { return buffers_; }

 private:
  void update_cpu(int64_t step, double lr, const at::Tensor& grad, double grad_scale);
  void update_aten(int64_t step, double lr, const at::Tensor& grad, double grad_scale);

  double beta1_, beta2_, eps_, weight_decay_;
  Parameters& parameters_;
  std::vector<OptimizerBuffer> buffers_;
};

}  // namespace lmtrain
