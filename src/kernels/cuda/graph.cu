#include <cuda_runtime.h>

#include "base/error.h"
#include "base/text.h"
#include "kernels/cuda/kernels.h"

namespace lmtrain::cuda {
namespace {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // it is reported here, and not by the next kernel
  throw Error(ErrorKind::kInternal, str("CUDA graph: ", what, ": ", cudaGetErrorString(error)));
}

}  // namespace

void begin_capture(void* stream) {
  // Work of other threads on other streams does not end it.
  check(cudaStreamBeginCapture(static_cast<cudaStream_t>(stream), cudaStreamCaptureModeThreadLocal),
        "begin of the capture");
}

void* end_capture(void* stream) {
  cudaGraph_t recorded = nullptr;
  check(cudaStreamEndCapture(static_cast<cudaStream_t>(stream), &recorded), "end of the capture");
  cudaGraphExec_t graph = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&graph, recorded, 0);
  cudaGraphDestroy(recorded);
  check(error, "preparing what was captured");
  return graph;
}

void abandon_capture(void* stream) {
  cudaGraph_t recorded = nullptr;
  cudaStreamEndCapture(static_cast<cudaStream_t>(stream), &recorded);
  if (recorded != nullptr) cudaGraphDestroy(recorded);
  cudaGetLastError();
}

void launch_graph(void* graph, void* stream) {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), static_cast<cudaStream_t>(stream)),
        "launch");
}

void destroy_graph(void* graph) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); }

}  // namespace lmtrain::cuda
