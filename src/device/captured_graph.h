// Work of a device is recorded once, and then launched as a whole: CUDA graphs, behind an interface
// that knows no CUDA.
//
// A graph holds kernels with the addresses and numbers they were called with. So recorded work must
// read all that changes from tensors that stay in place. Memory that it allocates comes from a pool
// that all graphs of a recorder share: copy results out before the next launch. Recording and
// launches are ordered with the other work of the current stream. Graphs must not outlive their
// recorder. Nothing here is thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>

namespace lmtrain {

class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;
  // Queues the recorded work on the current stream and returns.
  virtual void launch() = 0;
};

using Work = std::function<void()>;

class GraphRecorder {
 public:
  virtual ~GraphRecorder() = default;
  // Does the work at once, on the stream and with the memory of capture(). Call it first: libraries
  // make plans and workspaces in a first call, which a capture does not allow.
  virtual void warm_up(const Work& work) = 0;
  // Records the work without doing it. Throws what the work throws, and Error(kInternal) if the
  // device refuses; then no capture is under way.
  virtual std::unique_ptr<CapturedGraph> capture(const Work& work) = 0;
};

// Returns why there are no graphs on this device; empty where there are.
std::string why_no_graphs(const at::Device& device);

// Returns a recorder for a CPU, or for a GPU where why_no_graphs() is empty. On a CPU capture()
// keeps the work itself and launch() does it again, so that the code around graphs can be tested
// there.
std::unique_ptr<GraphRecorder> graph_recorder(const at::Device& device);

namespace cuda {
// Returns the recorder of a GPU, in a program with CUDA kernels; lmtrain::graph_recorder() calls
// it.
std::unique_ptr<GraphRecorder> graph_recorder(const at::Device& device);
}  // namespace cuda

}  // namespace lmtrain
