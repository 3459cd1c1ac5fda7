// Multiplies matrices by the fastest product: on some processors ours (kernels/cpu/gemm.h), else
// libtorch's. The choice depends on processor, dtype, shape and strides, never on timing. Operands
// of a product have one dtype and device, and any strides. No product here has a gradient: call it
// where autograd does not record, as in the forward and backward of an operator.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace lmtrain {

// Returns x [..., I] as the contiguous rows x_NI.
at::Tensor as_rows(const at::Tensor& x);
// Returns y_NO in the shape of x but for the last size.
at::Tensor in_shape_of(const at::Tensor& x, const at::Tensor& y_NO);

// A function that several threads call at once, with rows [begin, end) of a matrix.
using VisitRows = std::function<void(int64_t begin, int64_t end)>;

// Returns c_MN = a_MK b_KN, in their dtype.
at::Tensor product(const at::Tensor& a_MK, const at::Tensor& b_KN);
// Writes the product to c_MN, which must have the operands' dtype and contiguous rows.
void product_into(const at::Tensor& a_MK, const at::Tensor& b_KN, at::Tensor c_MN);
// Does the same, and calls visit(begin, end) for finished rows of c_MN, each row once, if possible
// while it is in the cache of the calling thread. Only on a CPU.
void product_into(const at::Tensor& a_MK, const at::Tensor& b_KN, at::Tensor c_MN,
                  const VisitRows& visit);
// Returns c_BMN, the products of a_BMK and b_BKN matrix by matrix.
at::Tensor batched_product(const at::Tensor& a_BMK, const at::Tensor& b_BKN);

// While one lives, cuBLAS keeps the parts of a split sum in fp32, for bf16 and fp16 matrices on a
// GPU. Otherwise libtorch lets it round them. It is a setting of libtorch's for the whole process,
// and does not change products on a CPU.
class Fp32Sums {
 public:
  Fp32Sums();
  ~Fp32Sums();
  Fp32Sums(const Fp32Sums&) = delete;
  Fp32Sums& operator=(const Fp32Sums&) = delete;

 private:
  bool bf16_rounds_, bf16_splits_, fp16_rounds_, fp16_splits_;  // as they were
};

// A MatrixPart is some rows and columns of a matrix.
struct MatrixPart {
  int64_t row, column;
  int64_t rows, columns;
};

// A function `visit` that several threads call, each with a part of a matrix in its cache. `data`
// is the first number of the part; its rows are contiguous, `stride` numbers apart. `beside` lists
// matrices of the same shape; `visit` uses the same part of each, and the product prefetches it. T
// is float or Bf16 (kernels/cpu/kernels.h), the product's dtype.
template <class T>
struct TileFunction {
  std::vector<at::Tensor> beside;
  std::function<void(const MatrixPart& part, T* data, int64_t stride)> visit;
};
// A prologue writes the left operand of a product part by part, so that it need not be in memory.
template <class T>
using Prologue = TileFunction<T>;
// An epilogue reads the result of a product part by part, so that it need not be in memory.
template <class T>
using Epilogue = TileFunction<T>;

// Calls `function` with all parts of x_MN in memory, whose rows are contiguous. Only on a CPU.
template <class T>
void visit_all(const TileFunction<T>& function, const at::Tensor& x_MN);
// Returns a_MK b_KN, M = `rows`, where the prologue writes each part of a, once or several times.
// Only on a CPU.
template <class T>
at::Tensor product_of(const Prologue<T>& a, int64_t rows, const at::Tensor& b_KN);
// Computes a_MK b_KN; the epilogue reads each part once. Only on a CPU.
template <class T>
void product_into(const at::Tensor& a_MK, const at::Tensor& b_KN, const Epilogue<T>& c);

}  // namespace lmtrain
