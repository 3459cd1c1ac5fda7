// One update rule over the flat parameter buffers. Each rule is a file of its own with its formula
// and source at its head.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "model/parameters.h"

namespace lmtrain {

// A buffer of the optimizer in the layout of the parameters: [flat_size], fp32. Saved tensor by
// tensor under
// "<name>.<HF name>".
struct OptimizerBuffer {
  std::string name;
  at::Tensor values;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // The update number `step` (from 1): masters, state and working weights. `grad` is the flat fp32
  // gradient, multiplied by `grad_scale` as it is read.
  virtual void update(int64_t step, double lr, const at::Tensor& grad, double grad_scale) = 0;
  // Everything that resume restores, zeros at the start.
  virtual const std::vector<OptimizerBuffer>& buffers() const = 0;
};

// The parameters must outlive the optimizer.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, Parameters& parameters);

}  // namespace lmtrain
