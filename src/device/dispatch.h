// Says which tensors have a kernel of ours, and calls it with their elements.
//
// An operator is one autograd function for all devices. on_cpu() runs its loop over
// kernels/cpu/kernels.h, on_cuda() its launch of kernels/cuda/kernels.h; only the call for the
// tensor's own device does anything. Tensors without a kernel go to the ATen composition.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include <string>

#include "kernels/cpu/kernels.h"
#include "kernels/cuda/kernels.h"

namespace lmtrain {

// True where the program was compiled with the CUDA kernels.
#ifdef LMTRAIN_CUDA_ARCHITECTURES
inline constexpr bool kHasCudaKernels = true;
#else
inline constexpr bool kHasCudaKernels = false;
#endif

// Returns whether the program has CUDA kernels for the architecture of this GPU. Asks CUDA once for
// each device, and logs a no as a warning. Requires a GPU with an index, such as cuda:0.
bool cuda_kernels_serve(const at::Device& device);
// Returns the compute capability of a GPU, such as 89 for 8.9; 0 in a program without the kernels.
// Throws Error(kInternal) if CUDA does not know it.
int compute_capability(const at::Device& device);
// Returns the name, such as "NVIDIA H200"; empty without the kernels, and if CUDA does not know it.
std::string cuda_name(const at::Device& device);

// Kernels on a CPU take fp32 and bf16.
inline bool has_cpu_kernel(const at::Tensor& x) {
  return x.is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

// Kernels on a GPU that the program has code for take fp32, bf16 and fp16.
inline bool has_cuda_kernel(const at::Tensor& x) {
  return x.is_cuda() && cuda_kernels_serve(x.device()) &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16 ||
          x.scalar_type() == at::kHalf);
}

// Returns whether a kernel of ours serves this tensor; otherwise the ATen composition does.
inline bool has_kernel(const at::Tensor& x) { return has_cpu_kernel(x) || has_cuda_kernel(x); }

// Calls f on a CPU tensor with a value of the kernels' element type for x's dtype, float or Bf16;
// does nothing on a GPU. Requires has_kernel(x).
template <class F>
void on_cpu(const at::Tensor& x, F&& f) {
  if (!x.is_cpu()) return;
  if (x.scalar_type() == at::kFloat) {
    f(float{});
  } else {
    f(Bf16{});
  }
}

// Returns the element type of x and the current stream of its device.
cuda::Call cuda_call(const at::Tensor& x);

// Calls f(cuda_call(x)) on a GPU tensor with its device current; does nothing on a CPU. `f` is a
// generic lambda, so that a program without the kernels compiles none of it. Requires
// has_kernel(x).
template <class F>
void on_cuda([[maybe_unused]] const at::Tensor& x, [[maybe_unused]] F&& f) {
  if constexpr (kHasCudaKernels) {
    if (!x.is_cuda()) return;
    const c10::DeviceGuard guard(x.device());
    f(cuda_call(x));
  }
}

// Returns the address of the first element of x. T must have the size of its elements; neither the
// dtype nor the device is checked.
template <class T>
T* elements(const at::Tensor& x) {
  return static_cast<T*>(x.data_ptr());
}

// Returns the least number of positions, of `width` elements, in a chunk of parallel work.
inline int64_t grain_rows(int64_t width) { return 1 + 16384 / (width > 0 ? width : 1); }

}  // namespace lmtrain
