// Products of matrices, by whichever is fastest: on some processors ours (ops/cpu_gemm.h), else
// libtorch's. Chosen by processor, dtype and shape, never by timing.
#pragma once

#include <ATen/core/Tensor.h>

namespace lmtrain {

// a_MK b_KN -> c_MN. No gradient. Either may be a transposed view of a contiguous tensor.
at::Tensor product(const at::Tensor& a, const at::Tensor& b);

}  // namespace lmtrain
