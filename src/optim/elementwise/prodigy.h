// Updates by Prodigy (Mishchenko & Defazio, 2306.06101, Algorithm 4), which is Adam whose learning
// rate is lr times an estimate d of the distance to the solution, made from all tensors:
//
//   r  <- sqrt(b2) r + (d / d0) d lr <g, w0 - w>        s <- sqrt(b2) s + (d / d0) d lr g
//   m  <- b1 m + (1 - b1) d g                           v <- b2 v + (1 - b2) d^2 g^2
//   d' = max(d, d_coef r / |s|_1)
//   w  <- w - d lr wd w - d lr m / (sqrt(v) + d' eps)       d <- d'
//
// w0 are the weights before the first update, where d is d0. There is no bias correction, as in the
// authors' code by default. The estimate takes the schedule's lr for every tensor; that of a group
// scales its step alone. It needs all tensors in one process, so processes cannot divide it. Sums
// are in fp64; their bits depend on the number of threads. The state is exp_avg (m), exp_avg_sq
// (v), s, initial (w0) and d_r, which is d and r.
#pragma once

#include "optim/elementwise/range_rule.h"

namespace lmtrain {

class Prodigy : public RangeRule {
 public:
  // Updates only the tensors for which `takes` returns true, and estimates d from these.
  Prodigy(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes);
  void update(const UpdateStep& step, const at::Tensor& grad) override;
  const std::vector<OptimizerBuffer>& buffers() const override { return buffers_; }

 private:
  void update_range(const UpdateStep& step, const RangeView& view) override;

  double beta1_, beta2_, eps_, d0_, d_coef_;
  Parameters& parameters_;
  at::Tensor d_r_;             // [2]; zero before the first update
  double d_ = 0, next_d_ = 0;  // of the update under way: d and d'
  std::vector<OptimizerBuffer> buffers_;
};

}  // namespace lmtrain
