// Captures CUDA graphs, with a stream of its own and a private pool of libtorch's caching
// allocator.
//
// This is present in a program with CUDA kernels (LMTRAIN_HAS_CUDA). Neither libtorch_cuda.so nor
// libc10_cuda.so is linked: streams and events come through libtorch's device interface, the pool
// through the allocator's virtual functions.
#pragma once

#include "device/captured_graph.h"

namespace lmtrain::cuda {

// Returns a recorder for a GPU; lmtrain::graph_recorder() calls it.
std::unique_ptr<GraphRecorder> graph_recorder(const at::Device& device);

}  // namespace lmtrain::cuda
