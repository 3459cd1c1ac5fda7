#include "training/step_graphs.h"

#include <ATen/record_function.h>

#include "base/log.h"
#include "base/text.h"
#include "device/device_memory.h"
#include "device/failure.h"
#include "device/torch_headers.h"

namespace lmtrain {
namespace {

// Copies `values` to `buffer`, which is made the first time.
void put(const at::Tensor& values, at::Tensor& buffer, const at::Device& device) {
  if (!values.defined()) return;
  if (!buffer.defined()) buffer = at::empty(values.sizes(), values.options().device(device));
  buffer.copy_(values, /*non_blocking=*/true);
}

}  // namespace

StepGraphs::StepGraphs(std::unique_ptr<GraphRecorder> recorder, Llama& model, Optimizer& optimizer,
                       const at::Tensor& grad)
    : recorder_(std::move(recorder)),
      model_(model),
      optimizer_(optimizer),
      grad_(grad),
      loss_(at::empty({}, grad.options().dtype(at::kFloat))) {
  if (optimizer.capturable() == nullptr)
    log_note("compile \"graph\": this optimizer's update is not captured");
}

at::Tensor StepGraphs::loss_and_gradient(const MicroBatch& micro, bool first) {
  const at::Device device = model_.device();
  if (!recorder_) return model_.loss_and_gradient(micro.to(device), grad_, first);
  const int64_t segments = micro.bounds.defined() ? micro.bounds.numel() - 1 : 0;
  const int64_t rows = micro.ids.size(0), length = micro.ids.size(1);
  ShapeGraphs& shape = shapes_[{rows, length, segments}];
  MicroBatch& inputs = shape.inputs;
  put(micro.ids, inputs.ids, device);
  put(micro.targets, inputs.targets, device);
  put(micro.scale, inputs.scale, device);
  put(micro.bounds, inputs.bounds, device);
  put(micro.positions, inputs.positions, device);
  put(micro.dropout_keys, inputs.dropout_keys, device);
  // Captures the tensors by value: a graph reads them, also if `shape` moves.
  const Work work = [this, inputs, first] {
    loss_.copy_(model_.loss_and_gradient(inputs, grad_, first));
  };
  const std::string packed = segments > 0 ? str(", up to ", segments, " segments") : "";
  run(first ? shape.first : shape.later, work,
      str(counted(rows, "row"), " of length ", length, packed));
  return loss_.clone();  // the next graph overwrites it
}

void StepGraphs::update(const UpdateStep& step) {
  CapturableUpdate* const halves = optimizer_.capturable();
  if (!recorder_ || halves == nullptr) return optimizer_.update(step, grad_);
  halves->set_constants(step);
  run(
      update_, [this, halves] { halves->apply(grad_); }, "the update");
}

void StepGraphs::run(Graph& graph, const Work& work, const std::string& what) {
  const bool rehearses = graph.warm_ups < kWarmUps;
  bool captures = false;
  try {
    if (rehearses) {
      recorder_->warm_up(work);
      ++graph.warm_ups;
      return;
    }
    if (!graph.captured) {
      captures = true;
      graph.captured = recorder_->capture(work);
      captures = false;
    }
    RECORD_USER_SCOPE("graph");
    graph.captured->launch();
    return;
  } catch (const std::exception& error) {
    const Failure failure = describe_failure(error);
    // Outside of a capture, `script` would throw all other errors too.
    if (!captures && failure.kind != ErrorKind::kMemory) throw;
    give_up(what, failure.cause);
    // A capture or a launch that fails has done nothing; a warm-up may have done a part.
    if (rehearses) throw;
  }
  work();
}

void StepGraphs::give_up(const std::string& what, const std::string& reason) {
  log_warning(str("compile \"graph\": this run goes on as \"script\", to the same bits, since ",
                  what, " failed as a graph: ", reason));
  shapes_.clear();
  update_ = {};
  recorder_.reset();
  reset_peak_memory(model_.device());
}

}  // namespace lmtrain
