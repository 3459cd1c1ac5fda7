// Updates by MARS-AdamW (Yuan et al., 2411.10438), which is AdamW on a gradient whose variance is
// reduced by the one before it:
//
//   c  = g + gamma b1 / (1 - b1) (g - g of the last update)      c <- c / max(1, |c|), by tensor
//   then AdamW's update (adamw.h) with c for g
//
// It is the paper's approximation, which computes no second gradient of a batch, as in the authors'
// code with optimize_1d: every tensor alike, norms and embeddings too. Before the first update the
// last gradient is 0. g is the gradient after clipping. The state is last_grad, and AdamW's exp_avg
// and exp_avg_sq.
#pragma once

#include "optim/adamw.h"

namespace lmtrain {

class Mars : public Optimizer {
 public:
  // Updates only the tensors for which `takes` returns true.
  Mars(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes);
  void update(const UpdateStep& step, const at::Tensor& grad) override;
  const std::vector<OptimizerBuffer>& buffers() const override { return buffers_; }

 private:
  Hyperparameters hyperparameters_;
  double gamma_;
  FlatMoments last_;
  AdamW rule_;
  std::vector<ParameterSpec> specs_;
  std::vector<OptimizerBuffer> buffers_;
};

}  // namespace lmtrain
