// From tensors to kernels: which tensors have one, on which device it runs, and their elements.
//
// An operator is one autograd function for all devices: `on_cpu` holds its loop over
// kernels/cpu/kernels.h, `on_cuda` its launch from kernels/cuda/kernels.h, and only the one of the
// tensor's own device is called. What has no kernel of ours goes to the ATen composition.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include <string>

#include "kernels/cpu/kernels.h"
#include "kernels/cuda/kernels.h"

namespace lmtrain {

// Whether the program was compiled with the CUDA kernels.
#ifdef LMTRAIN_CUDA_ARCHITECTURES
inline constexpr bool kHasCudaKernels = true;
#else
inline constexpr bool kHasCudaKernels = false;
#endif

// Whether they serve this GPU: the program has code for its architecture. Asked once a device; says
// in the log when not.
bool cuda_kernels_serve(const at::Device& device);
// The compute capability of a GPU that they serve: 89 is 8.9.
int compute_capability(const at::Device& device);
// "NVIDIA H200"; empty in a program without the kernels.
std::string cuda_name(const at::Device& device);

// fp32 and bf16 on a CPU.
inline bool has_cpu_kernel(const at::Tensor& x) {
  return x.is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

// fp32, bf16 and fp16 on a GPU that the program has code for.
inline bool has_cuda_kernel(const at::Tensor& x) {
  return x.is_cuda() && cuda_kernels_serve(x.device()) &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16 ||
          x.scalar_type() == at::kHalf);
}

// Whether a kernel of ours serves this tensor; otherwise the ATen composition does.
inline bool has_kernel(const at::Tensor& x) { return has_cpu_kernel(x) || has_cuda_kernel(x); }

// On a CPU: calls f with a value of the kernels' element type for x's dtype, float or Bf16.
// Requires has_kernel(x).
template <class F>
void on_cpu(const at::Tensor& x, F&& f) {
  if (!x.is_cpu()) return;
  if (x.scalar_type() == at::kFloat) {
    f(float{});
  } else {
    f(Bf16{});
  }
}

// The element type and the current stream of x's device.
cuda::Call cuda_call(const at::Tensor& x);

// On a GPU: calls f(what a launch needs) with x's device current. `f` is a generic lambda, so that
// a program without the kernels compiles none of it. Requires has_kernel(x).
template <class F>
void on_cuda([[maybe_unused]] const at::Tensor& x, [[maybe_unused]] F&& f) {
  if constexpr (kHasCudaKernels) {
    if (!x.is_cuda()) return;
    const c10::DeviceGuard guard(x.device());
    f(cuda_call(x));
  }
}

template <class T>
T* elements(const at::Tensor& x) {
  return static_cast<T*>(x.data_ptr());
}

// Positions one parallel chunk should at least hold, for `width` elements each.
inline int64_t grain_rows(int64_t width) { return 1 + 16384 / (width > 0 ? width : 1); }

}  // namespace lmtrain
