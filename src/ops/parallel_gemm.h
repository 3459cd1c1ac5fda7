// Computes a product of ours (kernels/cpu/gemm.h) on all threads: the right operand is packed block
// by block, the result divided into pieces that threads take as they come free.
//
// The bits of a result depend on the operands alone, whichever thread computes which piece.
// ops/matmul.cpp says when such a product is taken.
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

// A left operand is in memory, or computed by a prologue where it is multiplied.
template <class T>
struct LeftOperand {
  int64_t rows;
  GemmMatrix<T> matrix;  // with a prologue: null data, and a column stride of 1
  const Prologue<T>* prologue = nullptr;
};

// A result is in memory (`rows`), or consumed by an epilogue where it is computed; `rows` is then
// not read. One in memory may be visited, some whole rows at a time, by the thread that wrote them,
// if the right operand is one block.
template <class T>
struct ProductResult {
  GemmRows<T> rows;
  const Epilogue<T>* epilogue = nullptr;
  const VisitRows* visit = nullptr;
};

// Returns whether the right operand is packed at once, which a result that is visited requires.
template <class T>
bool is_one_block(const CpuGemm<T>& gemm, const at::Tensor& b_KN);
// Writes a b_KN to c. Requires K > 0, and that rows or columns of b are contiguous. T is float or
// Bf16.
template <class T>
void parallel_gemm(const CpuGemm<T>& gemm, const LeftOperand<T>& a, const at::Tensor& b_KN,
                   const ProductResult<T>& c);

// Returns into how many groups the result's columns must be divided, at most, so that all threads
// have work where the rows are too few. A computed left operand is computed once for each group.
int64_t groups_for_threads(int64_t rows, int64_t tile_rows);

}  // namespace lmtrain
