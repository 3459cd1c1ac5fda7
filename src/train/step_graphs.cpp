#include "train/step_graphs.h"

#include <bit>

#include "base/terminal/log.h"
#include "base/text.h"
#include "device/device.h"
#include "device/torch_headers.h"
#include "train/failure.h"

namespace lmtrain {
namespace {

// The same segments, and empty ones at the end up to a power of two.
at::Tensor rounded_up(const at::Tensor& bounds, const at::Device& device) {
  const auto segments = static_cast<uint64_t>(bounds.numel() - 1);
  at::Tensor rounded =
      host_buffer({static_cast<int64_t>(std::bit_ceil(segments)) + 1}, at::kInt, device);
  rounded.fill_(bounds[-1]).narrow(0, 0, bounds.numel()).copy_(bounds);
  return rounded;
}

// Copies `values` to `place`, which is made the first time.
void put(const at::Tensor& values, at::Tensor& place, const at::Device& device) {
  if (!values.defined()) return;
  if (!place.defined()) place = at::empty(values.sizes(), values.options().device(device));
  place.copy_(values, /*non_blocking=*/true);
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
  const at::Tensor bounds =
      micro.bounds.defined() ? rounded_up(micro.bounds, device) : micro.bounds;
  const int64_t segments = bounds.defined() ? bounds.numel() - 1 : 0;
  const int64_t rows = micro.ids.size(0), length = micro.ids.size(1);
  ShapeGraphs& shape = shapes_[{rows, length, segments}];
  MicroBatch& inputs = shape.inputs;
  put(micro.ids, inputs.ids, device);
  put(micro.targets, inputs.targets, device);
  put(micro.scale, inputs.scale, device);
  put(bounds, inputs.bounds, device);
  put(micro.positions, inputs.positions, device);
  // Copies of the tensors: they are what a graph reads, wherever it is kept.
  const Work work = [this, inputs, first] {
    loss_.copy_(model_.loss_and_gradient(inputs, grad_, first));
  };
  const std::string packed = segments > 0 ? str(", up to ", segments, " segments") : "";
  run(first ? shape.first : shape.later, shape.capture_failed, work,
      str(counted(rows, "row"), " of length ", length, packed));
  return loss_.clone();  // the next graph overwrites it
}

void StepGraphs::update(const UpdateStep& step) {
  CapturableUpdate* const halves = optimizer_.capturable();
  if (halves == nullptr) return optimizer_.update(step, grad_);
  halves->set_constants(step);
  run(
      update_, update_capture_failed_, [this, halves] { halves->apply(grad_); }, "the update");
}

void StepGraphs::run(Graph& graph, bool& capture_failed, const Work& work,
                     const std::string& what) {
  if (capture_failed) return work();
  if (graph.warm_ups < kWarmUps) {
    recorder_->warm_up(work);
    ++graph.warm_ups;
    return;
  }
  if (!graph.captured) {
    try {
      graph.captured = recorder_->capture(work);
    } catch (const std::exception& error) {
      const Failure failure = describe_failure(error);
      if (failure.kind == ErrorKind::kMemory) throw;
      log_warning(str("compile \"graph\": ", what,
                      " as \"script\" instead, to the same bits: ", failure.cause));
      capture_failed = true;
      return work();
    }
  }
  RECORD_USER_SCOPE("graph");
  graph.captured->launch();
}

}  // namespace lmtrain
