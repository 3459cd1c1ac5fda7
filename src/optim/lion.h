// Lion (Chen et al., 2302.06675):
//
//   w <- w - lr wd w - lr sign(b1 m + (1 - b1) g)
//   m <- b2 m + (1 - b2) g
//
// Every weight moves by lr, so lr is 3 to 10 times smaller than AdamW's and weight decay as much
// larger. State: exp_avg (m).
#pragma once

#include "optim/flat_moments.h"
#include "optim/hyperparameters.h"
#include "optim/update_constants.h"

namespace lmtrain {

class Lion : public Optimizer, private CapturableUpdate {
 public:
  Lion(const OptimizerConfig& config, Parameters& parameters);
  void update(const UpdateStep& step, const at::Tensor& grad) override;
  CapturableUpdate* capturable() override;
  const std::vector<OptimizerBuffer>& buffers() const override { return moments_.buffers(); }

 private:
  void set_constants(const UpdateStep& step) override;
  void apply(const at::Tensor& grad) override;
  void update_aten(const UpdateStep& step, const at::Tensor& grad);

  Hyperparameters hyperparameters_;
  Parameters& parameters_;
  FlatMoments moments_;
  UpdateConstants<LionConstants> constants_;
};

}  // namespace lmtrain
