// An Optimizer is one update rule over the flat parameter buffers. Each rule is a file of
// this room, with its formula and source at its head.
//
// A rule computes in the dtype of the masters: fp32 in a run, fp64 where tests compare it with a
// reference. The element-wise rules have fused kernels (device/dispatch.h says where); elsewhere,
// and in fp64, they use ATen operators.
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
  double lr = 0;          // of the schedule
  double grad_scale = 1;  // the gradient is multiplied by it as it is read
  RunClock run = {};      // the clock after this update, for warm-ups of betas
};

// Holds a tensor of the optimizer's state, of any shape, on the device of the parameters. It is
// saved as fp32 under its name, "exp_avg.<HF name>". In Optimizer::buffers() `values` is the memory
// of the optimizer itself, so whoever writes to it sets the state; elsewhere it may be a copy.
struct OptimizerBuffer {
  std::string name;
  at::Tensor values;
};

// Makes an update in two halves: set_constants() puts its numbers into memory of the device, then
// apply() does the work, which is the same in every update and reads them there. A graph of apply()
// may be captured.
class CapturableUpdate {
 public:
  virtual void set_constants(const UpdateStep& step) = 0;
  virtual void apply(const at::Tensor& grad) = 0;

 protected:
  ~CapturableUpdate() = default;
};

// Says which tensors an optimizer updates, and keeps state for.
using ParameterFilter = std::function<bool(const ParameterSpec&)>;
inline bool every_parameter(const ParameterSpec&) { return true; }

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Updates masters, state and working weights of its tensors. `grad` is flat, in the masters'
  // dtype; it may be overwritten.
  virtual void update(const UpdateStep& step, const at::Tensor& grad) = 0;
  // Returns update() in two halves; null for a rule, or a dtype, that has none.
  virtual CapturableUpdate* capturable() { return nullptr; }
  // Returns about how many bytes update() needs while it works, beside state and gradient.
  virtual int64_t scratch_bytes() const { return 0; }
  // Returns the whole state, which resume restores. A new optimizer has set it to zero.
  virtual const std::vector<OptimizerBuffer>& buffers() const = 0;
};

}  // namespace lmtrain
