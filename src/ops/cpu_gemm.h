// Products of fp32 matrices on a CPU: plain functions, single-threaded, no torch.
//
// Blocked after Goto & van de Geijn ("Anatomy of high-performance matrix multiplication", 2008): a
// block of the right operand is packed in panels as wide as a register tile; against them go rows
// of the left one, packed by whoever multiplies them. Every sum is taken in the order of its terms,
// a block of at most kGemmDepth at a time, so a result depends on nothing but the operands.
// Compiled per instruction set like the kernels of cpu_kernels.h; ops/linear.cpp shares the work
// among threads.
#pragma once

#include <cstdint>

namespace lmtrain {

// Terms of a sum taken at a time, and rows of the left operand packed at a time.
inline constexpr int64_t kGemmDepth = 256;
inline constexpr int64_t kGemmRows = 48;

// Element (i, j) is data[i * row_stride + j * column_stride]; one of the two strides is 1.
struct GemmMatrix {
  const float* data;
  int64_t row_stride, column_stride;
  [[gnu::always_inline]] const float* at(int64_t row, int64_t column) const {
    return data + row * row_stride + column * column_stride;
  }
};

struct CpuGemm {
  int64_t tile_rows;      // divides kGemmRows
  int64_t panel_columns;  // of a panel, and of a tile
  int64_t scratch;        // floats that `multiply` needs, 64-byte aligned
  // b[depth][columns], `columns` at most panel_columns, into panel[depth][panel_columns].
  void (*pack_panel)(GemmMatrix b, int64_t depth, int64_t columns, float* panel);
  // c = a b, or c += a b, for a[rows][depth] and the panels of b[depth][columns], one behind the
  // other. `rows` at most kGemmRows, `depth` at most kGemmDepth.
  void (*multiply)(GemmMatrix a, int64_t rows, int64_t depth, const float* panels, int64_t columns,
                   float* c, int64_t c_stride, bool add, float* scratch);
};

// For the best instruction set the processor has.
const CpuGemm& cpu_gemm();

// Whether it is faster than libtorch's, which is MKL's: that gives processors that are not Intel's
// its code for AVX2, half the rate of AVX-512.
bool cpu_gemm_is_fastest();

}  // namespace lmtrain
