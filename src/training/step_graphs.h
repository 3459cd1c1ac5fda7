// Runs a step with `compile: graph`: forward and backward of a micro-batch are one captured graph
// for each shape, and the update is another. They compute what `script` computes, to the same bits.
//
// A micro-batch is copied to where the graph of its shape reads it. The first kWarmUps calls of a
// graph do its work without it (the warm-up), the next one captures it, and then it is launched.
// The guard decides between the graphs: loss and norm are on the host before the update is
// launched.
//
// All graphs are given up when a capture is refused, or when a warm-up or a launch runs out of
// memory: their memory is given back, since `script` needs as much, the work goes on as `script`,
// and the log says why, once. A warm-up that runs out of memory throws that error as well, so that
// accumulate_batch computes the step again. Running out of memory in `script` passes through.
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

  // `grad` is flat and fp32. Model, optimizer and `grad` are used as long as this lives; their
  // buffers must not be replaced. Notes it in the log where the optimizer's update cannot be
  // captured.
  StepGraphs(std::unique_ptr<GraphRecorder> recorder, Llama& model, Optimizer& optimizer,
             const at::Tensor& grad);

  // Does what Llama::loss_and_gradient does with the constructor's `grad`, for a micro-batch that
  // is still on the host. Returns the loss, a scalar in fp32 on the device.
  at::Tensor loss_and_gradient(const MicroBatch& micro, bool first);
  // Does what Optimizer::update does with the constructor's `grad`.
  void update(const UpdateStep& step);
  // Returns false once the graphs are given up. Where a call throws and gives them up, the gradient
  // may have been added to, and the caller has to compute the step again.
  bool in_use() const { return recorder_ != nullptr; }

 private:
  // Rows, length, and number of segments, 0 where every row is one. MicroBatch::bounds rounds that
  // number up, or few batches would share a graph.
  using Shape = std::array<int64_t, 3>;

  struct Graph {
    int warm_ups = 0;
    std::unique_ptr<CapturedGraph> captured;
  };
  struct ShapeGraphs {
    MicroBatch inputs;
    Graph first, later;  // `first` puts the gradient into the buffer, `later` adds it
  };

  // Does the work, or launches its graph, whichever is its turn. `what` names the work in the log.
  // `graph` may be gone afterwards.
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
