// `compile: graph`: forward and backward of a micro-batch as one captured graph of each shape, and
// the update as another. They do what `script` does, to the same bits.
//
// A shape's tensors are copied to where its graph reads them. It is rehearsed by its first real
// micro-batches, then captured, then launched; a shape that cannot be captured goes on without, and
// the log says why, once. The guard stands between the graphs: loss and norm are on the host before
// the update is launched. Out of memory, in a capture too, passes through as from `script`.
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
  // Of a shape, before it is captured.
  static constexpr int kWarmUps = 2;

  // They are used as long as this lives; their buffers must not be replaced.
  StepGraphs(std::unique_ptr<GraphRecorder> recorder, Llama& model, Optimizer& optimizer,
             const at::Tensor& grad);

  // As Llama::loss_and_gradient into the gradient, of a micro-batch that is still on the host.
  at::Tensor loss_and_gradient(const MicroBatch& micro, bool first);
  // As Optimizer::update of the gradient.
  void update(const UpdateStep& step);

 private:
  // Rows, length, and segments where there are any: rounded up, or few batches would share a graph.
  using Shape = std::array<int64_t, 3>;

  struct Graph {
    int warm_ups = 0;
    std::unique_ptr<CapturedGraph> captured;
  };
  struct ShapeGraphs {
    MicroBatch inputs;
    Graph first, later;  // put the gradient into the buffer, and add it
    bool capture_failed = false;
  };

  // Does the work, or launches its graph, whichever it has come to. `capture_failed`: whether
  // capturing it, or its like, has failed. `what` it is, for the log.
  void run(Graph& graph, bool& capture_failed, const Work& work, const std::string& what);

  std::unique_ptr<GraphRecorder> recorder_;  // outlives the graphs
  Llama& model_;
  Optimizer& optimizer_;
  at::Tensor grad_;
  at::Tensor loss_;  // where every graph leaves it
  std::map<Shape, ShapeGraphs> shapes_;
  Graph update_;
  bool update_capture_failed_ = false;
};

}  // namespace lmtrain
