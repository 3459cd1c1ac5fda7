// Casts matrices to 8-bit floating point with one scale for a whole tensor, and multiplies them
// (Micikevicius et al., "FP8 formats for deep learning", 2209.05433). ops/fp8_linear.cpp is made of
// this.
//
// A tensor x is kept as x s, rounded to 8 bits, and 1/s, where s = largest number of the format /
// largest |x|, in fp32. The scale is found anew for every tensor ("dynamic, tensorwise"). Scales
// stay on the device, and nothing here waits for it, so all of it may be in a captured graph. Where
// x has an infinity or a NaN, 1/s is not finite, and no element of any product with x is:
// saturation hides nothing. On a GPU casts are kernels of ours (fp8.cu) and products cublasLt's;
// elsewhere both are ATen's, which are the oracle.
#pragma once

#include <ATen/core/Tensor.h>

namespace lmtrain {

// The rows and columns of every matrix that is multiplied must be multiples of this.
inline constexpr int64_t kFp8Multiple = 16;

// Returns the largest |x| of each part of x, fp32 [parts]; the device decides the number of parts.
// A part with a NaN gives NaN. x is contiguous and has at least one element.
at::Tensor fp8_amax(const at::Tensor& x);

// Fp8Copies are the copies of x_MN in 8 bits: by rows, by columns, or both; the one that was not
// asked for is undefined. M is rounded up with zeros to M', a multiple of kFp8Multiple; N must be
// one.
struct Fp8Copies {
  at::Tensor rows_MN;        // [M', N]
  at::Tensor columns_NM;     // [N, M']
  at::Tensor inverse_scale;  // 1/s, an fp32 scalar
};
enum class Fp8Layout { kRows, kColumns, kBoth };

// Casts the contiguous x_MN. `format` is kFloat8_e4m3fn, which has more digits, or kFloat8_e5m2,
// which has more range. `amax` is fp8_amax(x_MN).
Fp8Copies fp8_cast(const at::Tensor& x_MN, const at::Tensor& amax, at::ScalarType format,
                   Fp8Layout layout);

// An Fp8Operand is an operand [rows, K] of a product whose sums run over K; K is the last
// dimension, and contiguous. It refers to its tensors, which must outlive it.
struct Fp8Operand {
  const at::Tensor& values;
  const at::Tensor& inverse_scale;
};
// Returns c_MN = a_MK b_NK', of `dtype`. At most one operand is e5m2. If `fast`, sums on a GPU may
// keep fewer digits than fp32 has.
at::Tensor fp8_product(const Fp8Operand& a_MK, const Fp8Operand& b_NK, at::ScalarType dtype,
                       bool fast);

}  // namespace lmtrain
