// `compile: graph`: forward and backward of a micro-batch as one captured graph of each shape, and
// the update as another. They do what `script` does, to the same bits.
//
// A shape's tensors are copied to where its graph reads them. Its first real micro-batches
// warm it up, then it is captured, then launched. The guard stands between the graphs: loss and
// norm are on the host before the update is launched.
//
// A capture that is refused, and memory that the graphs' pool cannot have, end all graphs: their
// memory is given back, since `script` needs as much, the work goes on as `script`, and the log
// says why, once. A rehearsal that runs out of memory throws it on, so that accumulate_batch makes
// the step again. Out of memory in `script` passes through.
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
  // Micro-batches of a shape that warm it up before its graph is captured.
  static constexpr int kWarmUps = 2;

  // They are used as long as this lives; their buffers must not be replaced.
  StepGraphs(std::unique_ptr<GraphRecorder> recorder, Llama& model, Optimizer& optimizer,
             const at::Tensor& grad);

  // As Llama::loss_and_gradient into the gradient, of a micro-batch that is still on the host.
  at::Tensor loss_and_gradient(const MicroBatch& micro, bool first);
  // As Optimizer::update of the gradient.
  void update(const UpdateStep& step);
  // Whether there still are graphs. Where a call throws and they end with it, the gradient may have
  // been added to, and the step is to be made again.
  bool in_use() const { return recorder_ != nullptr; }

 private:
  // Rows, length, and segments where there are any (MicroBatch::bounds rounds their number up, or
  // few batches would share a graph).
  using Shape = std::array<int64_t, 3>;

  struct Graph {
    int warm_ups = 0;
    std::unique_ptr<CapturedGraph> captured;
  };
  struct ShapeGraphs {
    MicroBatch inputs;
    Graph first, later;  // put the gradient into the buffer, and add it
  };

  // Does the work, or launches its graph, whichever it has come to. `what` it is, for the log.
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
