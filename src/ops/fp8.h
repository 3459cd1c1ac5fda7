// Casts matrices to 8-bit floating point with one scale for a whole tensor, and multiplies them
// (Micikevicius et al., "FP8 formats for deep learning", 2209.05433). ops/fp8_linear.cpp is made of
// this.
//
// A tensor x is kept as x s, rounded to 8 bits, and 1/s, where s = largest number of the format /
// largest |x|, in fp32: a new scale for every tensor ("dynamic, tensorwise"). Scales stay on the
// device, and nothing waits for it, so a graph may capture all of it. If x has an infinity or a
// NaN, 1/s is not finite, and neither is any element of a product with x. On a GPU our kernels cast
// (fp8.cu) and cublasLt multiplies; elsewhere ATen does both, and is the oracle.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace lmtrain {

// The rows and columns of every matrix that is multiplied must be multiples of this.
inline constexpr int64_t kFp8Multiple = 16;

// Returns the largest |x| of each part of x, fp32 [parts]; NaN for a part with a NaN. The number of
// parts depends on the device. x is contiguous and has at least one element.
at::Tensor fp8_amax(const at::Tensor& x);

// Copies of x_MN in 8 bits, by rows, by columns, or both; a copy that Fp8Layout does not ask for is
// undefined. M' is M rounded up to a multiple of kFp8Multiple; the added rows are zeros.
struct Fp8Copies {
  at::Tensor rows_MN;        // [M', N]
  at::Tensor columns_NM;     // [N, M']
  at::Tensor inverse_scale;  // 1/s, an fp32 scalar
};
enum class Fp8Layout { kRows, kColumns, kBoth };

// Casts the contiguous x_MN; N must be a multiple of kFp8Multiple. `format` is kFloat8_e4m3fn, with
// more digits, or kFloat8_e5m2, with more range. `amax` is fp8_amax(x_MN).
Fp8Copies fp8_cast(const at::Tensor& x_MN, const at::Tensor& amax, at::ScalarType format,
                   Fp8Layout layout);

// An operand [rows, K] of a product that sums over K; K is contiguous. It refers to its tensors,
// which must outlive it.
struct Fp8Operand {
  const at::Tensor& values;
  const at::Tensor& inverse_scale;
};
// Returns c_MN = a_MK b_NK', of `dtype`. At most one operand is e5m2. If `fast`, sums on a GPU may
// keep fewer digits than fp32 has.
at::Tensor fp8_product(const Fp8Operand& a_MK, const Fp8Operand& b_NK, at::ScalarType dtype,
                       bool fast);

// The two passes of fp8_linear, of matrices, without autograd. `amax` is fp8_amax of x or dy, or
// other numbers on its device with the same largest one.
struct Fp8Linear {
  at::Tensor x_IN, x_inverse_scale, weight_OI, weight_amax;  // what the backward needs
};
// Returns y_NO = x_NI weight_OI'.
std::pair<at::Tensor, Fp8Linear> fp8_linear_forward(const at::Tensor& x_NI, const at::Tensor& amax,
                                                    const at::Tensor& weight_OI);
// Returns dx_NI and dw_OI.
std::pair<at::Tensor, at::Tensor> fp8_linear_backward(const Fp8Linear& linear,
                                                      const at::Tensor& dy_NO,
                                                      const at::Tensor& amax);

}  // namespace lmtrain
