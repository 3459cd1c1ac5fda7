// Whether this program's device code runs on the current GPU.
#include "ops/cuda_common.cuh"

namespace lmtrain::cuda {
namespace {

__global__ void probe_kernel() {}

}  // namespace

bool serves_current_device() {
  cudaFuncAttributes attributes{};
  const bool serves = cudaFuncGetAttributes(&attributes, probe_kernel) == cudaSuccess;
  cudaGetLastError();  // the answer no is not an error to report later
  return serves;
}

}  // namespace lmtrain::cuda
