// A product of ours (kernels/cpu/gemm.h) on all threads: the right operand is packed block by
// block, the result divided into pieces that threads take as they come free.
//
// The bits of a result depend on the operands alone, whoever computes which piece. ops/matmul.cpp
// says when such a product is the one to take.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "device/dispatch.h"
#include "kernels/cpu/gemm.h"
#include "ops/matmul.h"

namespace lmtrain {

// x_MN as the product takes it.
template <class T>
GemmMatrix<T> gemm_matrix(const at::Tensor& x) {
  return {elements<T>(x), x.stride(0), x.stride(1)};
}

// A left operand: in memory, or computed where it is multiplied.
template <class T>
struct LeftOperand {
  int64_t rows;
  GemmMatrix<T> matrix;  // of a computed one, contiguous rows without data
  const Prologue<T>* prologue = nullptr;
};

// A result: in memory, or consumed where it is computed. One in memory may be visited, some whole
// rows at a time, by the thread that wrote them, if the right operand is one block.
template <class T>
struct ProductResult {
  GemmRows<T> rows;
  const Epilogue<T>* epilogue = nullptr;
  const VisitRows* visit = nullptr;
};

// Whether the right operand is packed at once, as a result that is visited requires.
template <class T>
bool is_one_block(const CpuGemm<T>& gemm, const at::Tensor& b_KN);
// a b_KN into c, for K > 0. Of b, rows or columns are contiguous. T is float or Bf16.
template <class T>
void parallel_gemm(const CpuGemm<T>& gemm, const LeftOperand<T>& a, const at::Tensor& b_KN,
                   const ProductResult<T>& c);

// Into how many groups the result's columns are divided where its rows are too few for the threads,
// at most: so often a computed left operand is computed.
int64_t groups_for_threads(int64_t rows, int64_t tile_rows);

}  // namespace lmtrain
