// Products of matrices on a CPU: plain functions, single-threaded, no torch.
//
// Blocked after Goto & van de Geijn ("Anatomy of high-performance matrix multiplication", 2008): a
// block of the right operand is packed in panels as wide as a register tile; against them go rows
// of the left one, as they are or, a tile beside the first product that reads it, packed. Sums are
// fp32; each is taken in the order of its terms, kGemmKC at a time, so a result depends on
// nothing but the operands.
// Compiled per instruction set like the kernels of kernels/cpu/kernels.h, for Bf16 only where the
// processor has instructions for it; ops/parallel_gemm.cpp shares the work among threads.
#pragma once

#include <cstdint>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/prefetch.h"

namespace lmtrain {

// Units of a sum taken at a time. A unit has the size of a float.
inline constexpr int64_t kGemmKC = 256;
// Rows of the left operand taken at a time: where its columns are contiguous so many that a piece
// of one is some lines of the cache.
inline constexpr int64_t kGemmRows = 48;
inline constexpr int64_t kGemmRowsOfColumns = 144;

// Rows that lie a multiple of so many bytes apart have to share a few lines of the cache.
inline constexpr int64_t kCacheAliasStride = 2048;

// Element (i, j) is data[i * row_stride + j * column_stride]; one of the two strides is 1.
template <class T>
struct GemmMatrix {
  const T* data;
  int64_t row_stride, column_stride;
  [[gnu::always_inline]] const T* at(int64_t row, int64_t column) const {
    return data + row * row_stride + column * column_stride;
  }
};

// Rows of a left operand, and some terms of each.
template <class T>
struct GemmBlock {
  GemmMatrix<T> matrix;
  int64_t rows;  // at most kGemmRows, or kGemmRowsOfColumns
  int64_t kc;    // in numbers, at most kGemmKC units
};

// Rows of a result, `stride` apart.
template <class T>
struct GemmRows {
  T* data;
  int64_t stride;
};

template <class T>
struct CpuGemm {
  int64_t unit;           // numbers in a unit
  int64_t tile_rows;      // divides kGemmRows and kGemmRowsOfColumns
  int64_t panel_columns;  // of a panel, and of a tile
  int64_t scratch;        // floats that `multiply` needs, 64-byte aligned
  // b[kc][columns], `columns` at most panel_columns, into panel[units of kc][panel_columns],
  // 64-byte aligned. A unit takes the place of a float.
  void (*pack_panel)(GemmMatrix<T> b, int64_t kc, int64_t columns, float* panel);
  // a b, or sums + a b, for the panels of b[a.kc][columns], one behind the other: rounded into
  // `c` where that has data, else into `sums`. Meanwhile lines that are wanted `next` are fetched.
  void (*multiply)(GemmBlock<T> a, LinesList& next, const float* panels, int64_t columns,
                   GemmRows<float> sums, bool add, GemmRows<T> c, float* scratch);
};

// For the best instruction set the processor has; null where it has none for T, or where libtorch's
// product is as fast: MKL's in fp32 with AVX2, oneDNN's in bf16 on Intel's matrix units.
template <class T>
const CpuGemm<T>* fastest_cpu_gemm();
template <>
const CpuGemm<float>* fastest_cpu_gemm<float>();
template <>
const CpuGemm<Bf16>* fastest_cpu_gemm<Bf16>();

}  // namespace lmtrain
