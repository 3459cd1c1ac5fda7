// Updates by Adam with weight decay that is coupled, a part of the gradient (Kingma & Ba,
// 1412.6980; L2 regularisation), as torch.optim.Adam does:
//
//   g <- g + wd w      m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2
//   w <- w - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
//
// After the first line it is AdamW without decay. g is the gradient after clipping, and wd is not
// clipped. The state is exp_avg (m) and exp_avg_sq (v).
#pragma once

#include "optim/adamw.h"

namespace lmtrain {

class Adam : public Optimizer {
 public:
  // Updates only the tensors for which `takes` returns true.
  Adam(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes);
  void update(const UpdateStep& step, const at::Tensor& grad) override;
  const std::vector<OptimizerBuffer>& buffers() const override { return rule_.buffers(); }

 private:
  Parameters& parameters_;
  std::vector<FlatRange> ranges_;  // with the decay of each
  AdamW rule_;                     // which does not decay
};

}  // namespace lmtrain
