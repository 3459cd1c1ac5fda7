// One update rule over the flat parameter buffers. Each rule is a file of its own with its formula
// and source at its head.
//
// A rule's arithmetic has the dtype of the masters: fp32 in a run, fp64 where tests hold it against
// a reference. The element-wise rules are fused kernels (device/dispatch.h says where there are
// any); in fp64, ATen operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "model/parameters.h"
#include "schedule/run_clock.h"

namespace lmtrain {

// The numbers that change from update to update.
struct UpdateStep {
  int64_t number = 1;     // of the update, from 1; skipped batches do not count
  double lr = 0;          // of the schedule
  double grad_scale = 1;  // the gradient is multiplied by it as it is read
  RunClock run = {};      // with this update: what changes over the run reads it
};

// A tensor of the optimizer's state, of any shape, on the device of the parameters. Saved as fp32
// under this name, "exp_avg.<HF name>".
struct OptimizerBuffer {
  std::string name;
  at::Tensor values;
};

// An update in two halves: its numbers, and then the work, which is the same in every update and
// reads them from memory of the device. A graph of the work may be captured.
class CapturableUpdate {
 public:
  virtual void set_constants(const UpdateStep& step) = 0;
  virtual void apply(const at::Tensor& grad) = 0;

 protected:
  ~CapturableUpdate() = default;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Updates masters, state and working weights. `grad` is flat, in the masters' dtype; it may be
  // overwritten.
  virtual void update(const UpdateStep& step, const at::Tensor& grad) = 0;
  // update() in its two halves; null for a rule, or a dtype, that has none.
  virtual CapturableUpdate* capturable() { return nullptr; }
  // Everything that resume restores, zeros at the start.
  virtual const std::vector<OptimizerBuffer>& buffers() const = 0;
};

// The parameters must outlive the optimizer. Error(kConfig) for a group that matches no tensor.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, Parameters& parameters);

}  // namespace lmtrain
