// Work of a device recorded once, and then launched as a whole: CUDA graphs, behind an interface
// that knows no CUDA.
//
// A graph is kernels with the addresses and numbers they were called with. Work to be launched
// again on other data reads all that changes from memory that stays where it is. What it allocates
// comes from a pool that the graphs of a recorder share and that keeps nothing from one launch to
// the next: results are copied out. Everything is in the order of the current stream. Graphs do not
// outlive their recorder. Not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>

namespace lmtrain {

class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;
  virtual void launch() = 0;
};

using Work = std::function<void()>;

class GraphRecorder {
 public:
  virtual ~GraphRecorder() = default;
  // Does the work at once, where capture() will record it: what libraries do in a first call only,
  // plans and workspaces, may not happen in a capture.
  virtual void warm_up(const Work& work) = 0;
  // Records the work without doing it. Throws what the work throws, and Error(kInternal) where the
  // device refuses; either way the device is as before.
  virtual std::unique_ptr<CapturedGraph> capture(const Work& work) = 0;
};

// Why there are no graphs on this device; empty where there are.
std::string why_no_graphs(const at::Device& device);

// A recorder for a CPU, or for a GPU where why_no_graphs() is empty. On a CPU capture() keeps the
// work itself and launch() does it again, so that the code around graphs can be tested there.
std::unique_ptr<GraphRecorder> graph_recorder(const at::Device& device);

}  // namespace lmtrain
