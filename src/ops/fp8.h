// Matrices in 8-bit floating point with one scale for a whole tensor, and products of them
// (Micikevicius et al., "FP8 formats for deep learning", 2209.05433): what ops/fp8_linear.cpp is
// made of.
//
// A tensor is x s, rounded, and 1/s; s = largest number of the format / largest |x|, in fp32, found
// anew for every tensor ("dynamic, tensorwise"). Scales stay on the device, and nothing here waits
// for it, so all of it may be in a captured graph. Where x has an infinity or a NaN, 1/s is not
// finite and so is no element of any product: saturation hides nothing. On a GPU casts are kernels
// of ours (fp8.cu) and products cublasLt's; elsewhere both are ATen's, and the oracle.
#pragma once

#include <ATen/core/Tensor.h>

namespace lmtrain {

// Rows and columns of all that is multiplied are multiples of this.
inline constexpr int64_t kFp8Multiple = 16;

// fp32: the largest |x| of each part of x, in as many parts as suits the device; NaN for a NaN.
at::Tensor fp8_amax(const at::Tensor& x);

// x_MN in 8 bits, by rows, by columns, or both. M is rounded up with zeros to M', a multiple of
// kFp8Multiple; N must be one.
struct Fp8Copies {
  at::Tensor rows_MN;        // [M', N]
  at::Tensor columns_NM;     // [N, M']
  at::Tensor inverse_scale;  // fp32, one number
};
enum class Fp8Layout { kRows, kColumns, kBoth };

// `format`: kFloat8_e4m3fn, which has more digits, or kFloat8_e5m2, which has more range. `amax` is
// that of x.
Fp8Copies fp8_cast(const at::Tensor& x_MN, const at::Tensor& amax, at::ScalarType format,
                   Fp8Layout layout);

// One operand [rows, K] of a product whose sums run over K; K is the last dimension, and
// contiguous.
struct Fp8Operand {
  const at::Tensor& values;
  const at::Tensor& inverse_scale;
};
// a_MK b_NK' -> c_MN of `dtype`; at most one of them e5m2. `fast`: on a GPU sums may keep fewer
// digits than fp32 has.
at::Tensor fp8_product(const Fp8Operand& a_MK, const Fp8Operand& b_NK, at::ScalarType dtype,
                       bool fast);

}  // namespace lmtrain
