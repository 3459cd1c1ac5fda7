// Updates by schedule-free AdamW (Defazio et al., 2405.15682), whose weights are the average of
// where it has been, instead of the end of a rate that falls. Its gradient is that at y:
//
//   y  = (1 - b1) z + b1 x
//   v <- b2 v + (1 - b2) g^2
//   z <- z - lr wd y - lr g / (sqrt(v / (1 - b2^t)) + eps)
//   x <- x + c (z - x)       c = lr^2 / (sum of lr^2 over all updates, this one included)
//
// x are the masters: they are evaluated and saved. y are the working weights, which the model
// computes with in training, in memory of their own whatever their dtype. y follows from x and z,
// so that the state is z, exp_avg_sq (v), and weight_sum (the sum of lr^2) of each tensor, which is
// the same in all. Before the first update z is x. lr is the schedule's; a constant one is what the
// method is for.
#pragma once

#include "optim/elementwise/range_rule.h"

namespace lmtrain {

class ScheduleFree : public RangeRule {
 public:
  // Updates only the tensors for which `takes` returns true. Masters and working weights must not
  // share memory.
  ScheduleFree(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes);
  void update(const UpdateStep& step, const at::Tensor& grad) override;
  const std::vector<OptimizerBuffer>& buffers() const override { return buffers_; }
  void refresh_working() override;

 private:
  void update_range(const UpdateStep& step, const RangeView& view) override;
  at::Tensor y(const FlatRange& range) const;
  void set_working(const FlatRange& range) override;

  double beta1_, beta2_, eps_;
  Parameters& parameters_;
  std::vector<ParameterSpec> specs_;
  at::Tensor weight_sums_;  // [tensors], in the order of specs_
  std::vector<OptimizerBuffer> buffers_;
};

}  // namespace lmtrain
