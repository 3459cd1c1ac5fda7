// Products of matrices, by whichever is fastest: on some processors ours (kernels/cpu/gemm.h), else
// libtorch's. Chosen by processor, dtype and shape, never by timing.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace lmtrain {

// Called with rows [begin, end) of a matrix, by several threads at once.
using VisitRows = std::function<void(int64_t begin, int64_t end)>;

// a_MK b_KN -> c_MN, in their dtype. No gradient. Of either, rows or columns are contiguous.
at::Tensor product(const at::Tensor& a_MK, const at::Tensor& b_KN);
// The same into c_MN, whose rows are contiguous.
void product_into(const at::Tensor& a_MK, const at::Tensor& b_KN, at::Tensor c_MN);
// The same, and visit(begin, end) with rows of c_MN that are whole, each once; where it can be,
// while they are in the cache of the thread that calls. On a CPU.
void product_into(const at::Tensor& a_MK, const at::Tensor& b_KN, at::Tensor c_MN,
                  const VisitRows& visit);
// c_BMN of a_BMK and b_BKN, matrix by matrix.
at::Tensor batched_product(const at::Tensor& a_BMK, const at::Tensor& b_BKN);

// Some rows and columns of a matrix.
struct MatrixPart {
  int64_t row, column;
  int64_t rows, columns;
};

// A function that threads call with each part of a matrix while it lies in their own cache. Its
// rows are contiguous, `stride` numbers apart. `beside` are matrices of the same shape whose part
// is read or written there; they are prefetched meanwhile. T is float or Bf16
// (kernels/cpu/kernels.h), the product's dtype.
template <class T>
struct TileFunction {
  std::vector<at::Tensor> beside;
  std::function<void(const MatrixPart& part, T* data, int64_t stride)> visit;
};
// Computes the left operand of a product part by part, so that it need not be in memory.
template <class T>
using Prologue = TileFunction<T>;
// Consumes the result of a product part by part, likewise.
template <class T>
using Epilogue = TileFunction<T>;

// Calls `function` with all parts of a matrix that is in memory, x_MN, whose rows are contiguous.
// On a CPU.
template <class T>
void visit_all(const TileFunction<T>& function, const at::Tensor& x_MN);
// a_MK b_KN, where the prologue writes the parts of a, if need be more than once. On a CPU.
template <class T>
at::Tensor product_of(const Prologue<T>& a, int64_t rows, const at::Tensor& b_KN);
// a_MK b_KN, whose parts the epilogue reads, each once. On a CPU.
template <class T>
void product_into(const at::Tensor& a_MK, const at::Tensor& b_KN, const Epilogue<T>& c);

}  // namespace lmtrain
