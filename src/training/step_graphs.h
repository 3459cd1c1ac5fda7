// Runs a step with `compile: graph`: forward and backward of a micro-batch are one captured graph
// for each shape, and the update is another. The bits are the same as with `script`.
//
// The first kWarmUps calls for a graph do its work without the graph (the warm-up). The next call
// captures the graph; this and all later calls launch it. A micro-batch is first copied to the
// buffers that the graph of its shape reads.
//
// If a capture fails, or a warm-up or launch runs out of memory, all graphs are given up: their
// memory is freed, a warning says why, and the work goes on as `script`. A warm-up that runs out of
// memory also throws that error, so that accumulate_batch computes the step again. All other errors
// pass through.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>

#include "device/captured_graph.h"
#include "model/llama.h"
#include "optim/optimizer.h"

namespace lmtrain {

class StepGraphs {
 public:
  // Calls that warm a graph up before it is captured.
  static constexpr int kWarmUps = 2;

  // `grad` is flat and fp32. Model, optimizer and `grad` must outlive this object, and their
  // buffers must not be replaced. Logs a note if the optimizer's update cannot be captured.
  StepGraphs(std::unique_ptr<GraphRecorder> recorder, Llama& model, Optimizer& optimizer,
             const at::Tensor& grad);

  // Does what Llama::loss_and_gradient does with the constructor's `grad`, for a micro-batch that
  // is still on the host. Returns the loss, a scalar in fp32 on the device.
  at::Tensor loss_and_gradient(const MicroBatch& micro, bool first);
  // Does what Optimizer::update does with the constructor's `grad`.
  void update(const UpdateStep& step);
  // Returns false once the graphs are given up. If the call that gave them up has thrown, the
  // gradient is spoiled, and the caller must compute the step again.
  bool in_use() const { return recorder_ != nullptr; }

 private:
  // Rows, length, and number of segments, 0 if every row is one segment. MicroBatch::bounds rounds
  // that number up, so that many batches share a graph.
  using Shape = std::array<int64_t, 3>;

  struct Graph {
    int warm_ups = 0;
    std::unique_ptr<CapturedGraph> captured;
  };
  struct ShapeGraphs {
    MicroBatch inputs;
    Graph first, later;  // `first` puts the gradient into the buffer, `later` adds it
  };

  // Does the work, or captures or launches its graph. `what` names the work in the log. `graph` may
  // be gone afterwards.
  void run(Graph& graph, const Work& work, const std::string& what);
  // Destroys the graphs and their recorder, and gives their memory back.
  void give_up(const std::string& what, const std::string& reason);

  std::unique_ptr<GraphRecorder> recorder_;  // outlives the graphs; null once they are given up
  Llama& model_;
  Optimizer& optimizer_;
  at::Tensor grad_;
  at::Tensor loss_;  // where every graph leaves it
  std::map<Shape, ShapeGraphs> shapes_;
  Graph update_;
};

}  // namespace lmtrain
