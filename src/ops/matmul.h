// Multiplies matrices by the fastest product: on some processors ours (kernels/cpu/gemm.h), else
// libtorch's. The choice depends on processor, dtype and shape, never on timing. Operands of a
// product have one dtype and device. In each operand rows or columns must be contiguous for our
// product; libtorch's takes any. Nothing here has a gradient: call it where autograd does not
// record, as in the forward and the backward of an operator.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace lmtrain {

// A function that is called with rows [begin, end) of a matrix, by several threads at once.
using VisitRows = std::function<void(int64_t begin, int64_t end)>;

// Returns c_MN = a_MK b_KN, in their dtype.
at::Tensor product(const at::Tensor& a_MK, const at::Tensor& b_KN);
// Writes the product to c_MN, which must have the operands' dtype and contiguous rows.
void product_into(const at::Tensor& a_MK, const at::Tensor& b_KN, at::Tensor c_MN);
// Does the same, and calls visit(begin, end) with rows of c_MN that are finished, each once; where
// possible, while they are in the cache of the calling thread. Only on a CPU.
void product_into(const at::Tensor& a_MK, const at::Tensor& b_KN, at::Tensor c_MN,
                  const VisitRows& visit);
// Returns c_BMN, the products of a_BMK and b_BKN matrix by matrix.
at::Tensor batched_product(const at::Tensor& a_BMK, const at::Tensor& b_BKN);

// While one lives, the sums of products of bf16 and fp16 matrices on a GPU stay in fp32 until they
// are whole. Otherwise libtorch allows cuBLAS to round the parts of a sum that it has split. The
// products of a CPU are not concerned. It is a setting of libtorch's for the whole process.
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

// A function that threads call with each part of a matrix while it lies in their own cache. `data`
// is the first number of the part; its rows are contiguous, `stride` numbers apart. `beside` holds
// matrices of the same shape. The function reads or writes the same part of each, which is
// prefetched during the product. T is float or Bf16 (kernels/cpu/kernels.h), the product's dtype.
template <class T>
struct TileFunction {
  std::vector<at::Tensor> beside;
  std::function<void(const MatrixPart& part, T* data, int64_t stride)> visit;
};
// A prologue computes the left operand of a product part by part, so that it need not be in memory.
template <class T>
using Prologue = TileFunction<T>;
// An epilogue consumes the result of a product part by part, so that it need not be in memory.
template <class T>
using Epilogue = TileFunction<T>;

// Calls `function` with all parts of a matrix that is in memory, x_MN, whose rows are contiguous.
// Only on a CPU.
template <class T>
void visit_all(const TileFunction<T>& function, const at::Tensor& x_MN);
// Returns a_MK b_KN, M = `rows`, where the prologue writes the parts of a, if need be more than
// once. Only on a CPU.
template <class T>
at::Tensor product_of(const Prologue<T>& a, int64_t rows, const at::Tensor& b_KN);
// Computes a_MK b_KN, whose parts the epilogue reads, each once. Only on a CPU.
template <class T>
void product_into(const at::Tensor& a_MK, const at::Tensor& b_KN, const Epilogue<T>& c);

}  // namespace lmtrain
