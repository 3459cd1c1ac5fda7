#include "optim/range_rule.h"

#include <algorithm>

#include "device/torch_headers.h"

namespace lmtrain {

RangeRule::RangeRule(const OptimizerConfig& config, Parameters& parameters,
                     const std::vector<std::string>& names, const ParameterFilter& takes)
    : hyperparameters_(config),
      parameters_(parameters),
      moments_(config, parameters, names, takes) {}

int64_t RangeRule::largest_range_bytes() const {
  int64_t largest = 0;
  for (const FlatRange& range : moments_.ranges()) largest = std::max(largest, range.size);
  return largest * static_cast<int64_t>(parameters_.master().element_size());
}

void RangeRule::update(const UpdateStep& step, const at::Tensor& grad) {
  const at::NoGradGuard no_grad;
  for (const FlatRange& range : moments_.ranges()) {
    const RangeView view{range, step.lr * range.group.lr_ratio, range.of(parameters_.master()),
                         range.of(grad)};
    if (step.grad_scale != 1) view.g.mul_(step.grad_scale);
    update_range(step, view);
    parameters_.refresh_working(range.first, range.size);
  }
}

}  // namespace lmtrain
