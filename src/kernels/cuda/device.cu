// Questions to the current GPU: whether this program's device code runs on it, and what it can do.
#include "kernels/cuda/common.cuh"

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

int compute_capability() {
  int device = 0, major = 0, minor = 0;
  const bool known =
      cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess;
  if (!known) throw Error(ErrorKind::kInternal, "CUDA does not say what GPU this is");
  return 10 * major + minor;
}

std::string device_name() {
  int device = 0;
  cudaDeviceProp properties{};
  const bool known = cudaGetDevice(&device) == cudaSuccess &&
                     cudaGetDeviceProperties(&properties, device) == cudaSuccess;
  return known ? properties.name : "";
}

}  // namespace lmtrain::cuda
