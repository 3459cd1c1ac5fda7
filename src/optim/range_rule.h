// The base of the element-wise rules: keeps the moments, and updates each range (FlatRange) by
// ATen's operators, on every device and in every dtype.
#pragma once

#include <string>
#include <vector>

#include "optim/flat_moments.h"
#include "optim/hyperparameters.h"

namespace lmtrain {

class RangeRule : public Optimizer {
 public:
  void update(const UpdateStep& step, const at::Tensor& grad) override;
  const std::vector<OptimizerBuffer>& buffers() const override { return moments_.buffers(); }

 protected:
  // Holds the views of a range, and its learning rate. `w` are the masters; `g` is the gradient,
  // already multiplied by grad_scale, and may be overwritten.
  struct RangeView {
    const FlatRange& range;
    double lr;
    at::Tensor w, g;
  };

  // Makes one moment for each name, for the tensors for which `takes` returns true.
  RangeRule(const OptimizerConfig& config, Parameters& parameters,
            const std::vector<std::string>& names, const ParameterFilter& takes);

  const Hyperparameters& hyperparameters() const { return hyperparameters_; }
  const Parameters& parameters() const { return parameters_; }
  const FlatMoments& moments() const { return moments_; }
  // Returns the bytes of a temporary as large as the largest range.
  int64_t largest_range_bytes() const;
  at::Tensor moment(size_t i, const RangeView& view) const {
    return moments_.moment(i, view.range);
  }
  // Decays the masters of a range. `u` has the sign of what the rule subtracts later.
  void decay(const RangeView& view, const at::Tensor& u) const {
    hyperparameters_.decay(view.w, u, view.lr, view.range.group);
  }

 private:
  // Updates masters and moments of a range.
  virtual void update_range(const UpdateStep& step, const RangeView& view) = 0;

  Hyperparameters hyperparameters_;
  Parameters& parameters_;
  FlatMoments moments_;
};

}  // namespace lmtrain
