// Multiplies matrices on a CPU: plain functions, single-threaded, no torch.
//
// Products are blocked after Goto & van de Geijn ("Anatomy of high-performance matrix
// multiplication", 2008). The caller packs a block of the right operand in panels as wide as a
// register tile, and then multiplies rows of the left operand by it. Sums are fp32, in the order of
// their terms, kGemmKC at a time, so a result depends only on the operands. The source is compiled
// per instruction set like the kernels of kernels/cpu/kernels.h, for Bf16 only with instructions
// for it. ops/parallel_gemm.cpp shares the work among threads.
#pragma once

#include <cstdint>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/prefetch.h"

namespace lmtrain {

// The most units of a sum that one call adds. A unit has the size of a float: one number in fp32,
// one or two in bf16 (kernels/cpu/units.h).
inline constexpr int64_t kGemmKC = 256;
// The most rows of the left operand that one call takes: kGemmRows, or kGemmRowsOfColumns if the
// operand's columns are contiguous, so that a column fills whole lines of the cache.
inline constexpr int64_t kGemmRows = 48;
inline constexpr int64_t kGemmRowsOfColumns = 144;

// In bytes. Rows at a multiple of this distance compete for a few lines of the cache.
inline constexpr int64_t kCacheAliasStride = 2048;

// A matrix whose element (i, j) is data[i * row_stride + j * column_stride]; one of the two strides
// is 1.
template <class T>
struct GemmMatrix {
  const T* data;
  int64_t row_stride, column_stride;
  [[gnu::always_inline]] const T* at(int64_t row, int64_t column) const {
    return data + row * row_stride + column * column_stride;
  }
  // Returns the matrix from an element on.
  [[gnu::always_inline]] GemmMatrix part(int64_t row, int64_t column) const {
    return {at(row, column), row_stride, column_stride};
  }
};

// A GemmBlock is a part of a left operand: some rows, and some terms of each.
template <class T>
struct GemmBlock {
  GemmMatrix<T> matrix;
  int64_t rows;  // at most kGemmRows, or kGemmRowsOfColumns
  int64_t kc;    // terms, in numbers; at most kGemmKC units
};

// GemmRows are rows of a result, `stride` numbers apart.
template <class T>
struct GemmRows {
  T* data;
  int64_t stride;
  [[gnu::always_inline]] GemmRows part(int64_t row, int64_t column) const {
    return {data + row * stride + column, stride};
  }
};

template <class T>
struct CpuGemm {
  int64_t unit;           // numbers in a unit
  int64_t tile_rows;      // divides kGemmRows and kGemmRowsOfColumns
  int64_t panel_columns;  // columns of a panel, and of a tile
  // How many units of the right operand are best packed at a time if the left operand's columns are
  // contiguous, as for a weight's gradient.
  int64_t units_of_columns;
  int64_t scratch;  // floats of `multiply`'s scratch, which must be 64-byte aligned
  // Packs b[kc][columns], `columns` at most panel_columns, into panel[units of kc][panel_columns],
  // 64-byte aligned; the rest of the panel becomes 0.
  void (*pack_panel)(GemmMatrix<T> b, int64_t kc, int64_t columns, float* panel);
  // Computes a b or, if `add`, sums + a b. b[a.kc][columns] is packed in `panels`, one panel after
  // the other. The result goes to `c`, rounded, or to `sums` if `c` has null data; without `add`,
  // `sums` is not read. Both are [a.rows][columns], without padding. Meanwhile fetches the lines of
  // `next` into the cache.
  void (*multiply)(GemmBlock<T> a, LinesList& next, const float* panels, int64_t columns,
                   GemmRows<float> sums, bool add, GemmRows<T> c, float* scratch);
};

// Returns the product of the instruction set of cpu_kernels_isa(). Returns null where it has none
// for T, or where libtorch's product is faster: MKL's in fp32 without AVX2, oneDNN's in bf16 on
// Intel's matrix units.
template <class T>
const CpuGemm<T>* fastest_cpu_gemm();
template <>
const CpuGemm<float>* fastest_cpu_gemm<float>();
template <>
const CpuGemm<Bf16>* fastest_cpu_gemm<Bf16>();

}  // namespace lmtrain
