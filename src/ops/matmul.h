// Products of matrices, by whichever is fastest: on some processors ours (ops/cpu_gemm.h), else
// libtorch's. Chosen by processor, dtype and shape, never by timing.
#pragma once

#include <ATen/core/Tensor.h>

namespace lmtrain {

// a_MK b_KN -> c_MN, in their dtype. No gradient. Of either, rows or columns are contiguous.
at::Tensor product(const at::Tensor& a_MK, const at::Tensor& b_KN);
// The same into c_MN, whose rows are contiguous.
void product_into(const at::Tensor& a_MK, const at::Tensor& b_KN, at::Tensor c_MN);
// The same for each matrix of a batch.
at::Tensor batched_product(const at::Tensor& a_BMK, const at::Tensor& b_BKN);

}  // namespace lmtrain
