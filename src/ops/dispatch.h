// From tensors to the CPU kernels: which tensors have one, and their element pointers.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/cpu_kernels.h"

namespace lmtrain {

// Whether the CPU kernels serve this tensor; otherwise the ATen composition does.
inline bool has_cpu_kernel(const at::Tensor& x) {
  return x.is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

// Calls f with a value of the kernels' element type for x's dtype: float or Bf16. Requires
// has_cpu_kernel(x).
template <class F>
void with_element_type(const at::Tensor& x, F&& f) {
  if (x.scalar_type() == at::kFloat) {
    f(float{});
  } else {
    f(Bf16{});
  }
}

template <class T>
T* elements(const at::Tensor& x) {
  return static_cast<T*>(x.data_ptr());
}

// Positions one parallel chunk should at least hold, for `width` elements each.
inline int64_t grain_rows(int64_t width) { return 1 + 16384 / (width > 0 ? width : 1); }

}  // namespace lmtrain
