// An Optimizer is one update rule over the flat parameter buffers. Each rule is a file of this
// room, with formula and source at its head. Not thread-safe.
//
// A rule computes in the dtype of the masters: fp32 in a run, fp64 in tests against a reference.
// Element-wise rules have fused kernels for some devices and dtypes (device/dispatch.h); otherwise
// they use ATen's operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "config/config.h"
#include "model/parameters.h"
#include "schedule/run_clock.h"

namespace lmtrain {

// Holds the numbers that change from update to update.
struct UpdateStep {
  int64_t number = 1;     // of the update, from 1; skipped batches do not count
  double lr = 0;          // the schedule's rate; a group multiplies it by its lr_ratio
  double grad_scale = 1;  // the rule multiplies the gradient by it
  RunClock run = {};      // the clock after this update, for warm-ups of betas
};

// Holds a tensor of the optimizer's state, of any shape, on the device of the parameters. A
// checkpoint has it in fp32 under its name, "exp_avg.<HF name>". In Optimizer::buffers() `values`
// is the optimizer's own memory: writing to it sets the state. Elsewhere it may be a copy.
struct OptimizerBuffer {
  std::string name;
  at::Tensor values;
};

// Makes an update in two halves, so that a graph of the second may be captured: set_constants()
// copies the numbers of the step to the device; apply() reads them there, and does the same work in
// every update.
class CapturableUpdate {
 public:
  virtual void set_constants(const UpdateStep& step) = 0;
  virtual void apply(const at::Tensor& grad) = 0;

 protected:
  ~CapturableUpdate() = default;
};

// Returns whether an optimizer updates a tensor, and keeps state for it.
using ParameterFilter = std::function<bool(const ParameterSpec&)>;
inline bool every_parameter(const ParameterSpec&) { return true; }

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Updates masters, state and working weights of its tensors. `grad` is flat, in the masters'
  // dtype, and may be overwritten.
  virtual void update(const UpdateStep& step, const at::Tensor& grad) = 0;
  // Returns update() in two halves; null if this rule, or this dtype, has none.
  virtual CapturableUpdate* capturable() { return nullptr; }
  // Returns about how many bytes update() needs while it works, beside state and gradient.
  virtual int64_t scratch_bytes() const { return 0; }
  // Returns the whole state, which a checkpoint saves. A new optimizer's state is zero.
  virtual const std::vector<OptimizerBuffer>& buffers() const = 0;
};

}  // namespace lmtrain
