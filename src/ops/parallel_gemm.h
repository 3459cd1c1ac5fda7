// Computes a product of ours (kernels/cpu/gemm.h) on all threads, which take parts of the result
// when they are free. The bits of a result depend on the operands only. ops/matmul.cpp says when
// such a product is taken.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "device/dispatch.h"
#include "kernels/cpu/gemm.h"
#include "ops/matmul.h"

namespace lmtrain {

// Returns the elements and strides of x_MN, whose rows or columns are contiguous.
template <class T>
GemmMatrix<T> gemm_matrix(const at::Tensor& x) {
  return {elements<T>(x), x.stride(0), x.stride(1)};
}

// A left operand: a matrix in memory, or a prologue that writes its parts.
template <class T>
struct LeftOperand {
  int64_t rows;
  GemmMatrix<T> matrix;  // with a prologue: null data, and a column stride of 1
  const Prologue<T>* prologue = nullptr;
};

// A result: `rows` in memory, or an epilogue that reads its parts; `rows` is then not used. If
// is_one_block(), `visit` may be set beside `rows`: it gets some whole rows at a time from the
// thread that wrote them.
template <class T>
struct ProductResult {
  GemmRows<T> rows;
  const Epilogue<T>* epilogue = nullptr;
  const VisitRows* visit = nullptr;
};

// Returns whether b is small enough to be packed at once, as ProductResult::visit requires.
template <class T>
bool is_one_block(const CpuGemm<T>& gemm, const at::Tensor& b_KN);
// Writes a b_KN to c. Requires K > 0, and that rows or columns of b are contiguous. T is float or
// Bf16.
template <class T>
void parallel_gemm(const CpuGemm<T>& gemm, const LeftOperand<T>& a, const at::Tensor& b_KN,
                   const ProductResult<T>& c);

// Returns into how many groups of columns the result must be divided so that all threads have work.
// A prologue computes the left operand once for each group.
int64_t groups_for_threads(int64_t rows, int64_t tile_rows);

}  // namespace lmtrain
