// Multiplies matrices on a CPU: plain functions, single-threaded, no torch.
//
// Products are blocked after Goto & van de Geijn ("Anatomy of high-performance matrix
// multiplication", 2008): a block of the right operand is packed in panels as wide as a register
// tile and multiplied by rows of the left operand, which are read where they are or packed tile by
// tile beside the first product that reads the tile. Sums are fp32; each is taken in the order of
// its terms, kGemmKC at a time, so a result depends on nothing but the operands. The source is
// compiled per instruction set like the kernels of kernels/cpu/kernels.h, for Bf16 only where the
// processor has instructions for it; ops/parallel_gemm.cpp shares the work among threads.
#pragma once

#include <cstdint>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/prefetch.h"

namespace lmtrain {

// The number of units of a sum that are taken at a time. A unit has the size of a float: it is one
// number in fp32, and one or two in bf16 (kernels/cpu/units.h).
inline constexpr int64_t kGemmKC = 256;
// The number of rows of the left operand that are taken at a time. It is kGemmRowsOfColumns where
// the operand's columns are contiguous, so that the rows of one column fill some lines of the
// cache.
inline constexpr int64_t kGemmRows = 48;
inline constexpr int64_t kGemmRowsOfColumns = 144;

// Rows whose distance is a multiple of so many bytes have to share a few lines of the cache.
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
};

// A GemmBlock is some rows of a left operand, and some terms of each.
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
};

template <class T>
struct CpuGemm {
  int64_t unit;           // numbers in a unit
  int64_t tile_rows;      // divides kGemmRows and kGemmRowsOfColumns
  int64_t panel_columns;  // columns of a panel, and of a tile
  // Units of the right operand that are best packed at a time where the left one's columns are
  // contiguous: a weight's gradient has many terms, and a result that stays in the cache.
  int64_t units_of_columns;
  int64_t scratch;  // floats that `multiply` needs, 64-byte aligned
  // Packs b[kc][columns], `columns` at most panel_columns, into panel[units of kc][panel_columns],
  // 64-byte aligned; what is beyond b becomes 0.
  void (*pack_panel)(GemmMatrix<T> b, int64_t kc, int64_t columns, float* panel);
  // Computes a b or, if `add`, sums + a b, for a right operand b[a.kc][columns] that lies in
  // `panels`, one panel after the other. The result goes to `c`, rounded, where that has data, else
  // to `sums`, which is not read without `add`. Both are [a.rows][columns], with no padding:
  // nothing beyond is read or written. Meanwhile the lines of `next` are fetched into the cache.
  void (*multiply)(GemmBlock<T> a, LinesList& next, const float* panels, int64_t columns,
                   GemmRows<float> sums, bool add, GemmRows<T> c, float* scratch);
};

// Returns the product for the best instruction set that the processor has. Returns null where it
// has none for T, or where libtorch's product is faster: MKL's in fp32 without AVX2, oneDNN's in
// bf16 on Intel's matrix units.
template <class T>
const CpuGemm<T>* fastest_cpu_gemm();
template <>
const CpuGemm<float>* fastest_cpu_gemm<float>();
template <>
const CpuGemm<Bf16>* fastest_cpu_gemm<Bf16>();

}  // namespace lmtrain
