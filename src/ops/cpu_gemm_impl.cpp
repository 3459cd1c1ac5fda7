// Compiled once an instruction set, with LMTRAIN_ISA naming it (see CMakeLists.txt and
// cpu_vectors.h).
#include <cstddef>

#include "ops/cpu_gemm.h"
#include "ops/cpu_vectors.h"

namespace lmtrain::LMTRAIN_ISA {
namespace {

// A register tile of kTileRows x kTileVectors sums leaves room for its operands.
#if defined(__AVX512F__)
constexpr int kTileRows = 12;
#else
constexpr int kTileRows = 6;
#endif
constexpr int kTileVectors = 2;
constexpr int64_t kColumns = kTileVectors * kLanes;
// Rows packed one behind the other lie this far apart: not by a power of two, which would put them
// into the same few lines of the cache.
constexpr int64_t kRowStride = kGemmDepth + 16;
static_assert(kGemmRows % kTileRows == 0);

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t whole_tiles(int64_t rows) { return (rows + kTileRows - 1) / kTileRows * kTileRows; }

void pack_panel(GemmMatrix b, int64_t depth, int64_t columns, float* panel) {
  if (b.column_stride == 1) {
    for (int64_t k = 0; k < depth; ++k, panel += kColumns) {
      const float* row = b.at(k, 0);
      for (int64_t j = 0; j < columns; ++j) panel[j] = row[j];
      for (int64_t j = columns; j < kColumns; ++j) panel[j] = 0;
    }
    return;
  }
  // Some terms of every column at a time, so that what is written stays in the cache.
  for (int64_t first = 0; first < depth; first += kLanes) {
    const int64_t last = smaller(first + kLanes, depth);
    for (int64_t j = 0; j < kColumns; ++j) {
      for (int64_t k = first; k < last; ++k) {
        panel[k * kColumns + j] = j < columns ? *b.at(k, j) : 0;
      }
    }
  }
}

// Left operands as the tile reads them. Rows that are contiguous stay so.
struct ByRow {
  static constexpr int64_t kRow = kRowStride, kTerm = 1;
  static const float* tile(const float* packed, int64_t row, int64_t) {
    return packed + row * kRowStride;
  }
  static void pack(GemmMatrix a, int64_t rows, int64_t depth, float* packed) {
    for (int64_t row = 0; row < whole_tiles(rows); ++row, packed += kRowStride) {
      const auto bytes = static_cast<std::size_t>(depth) * sizeof(float);
      row < rows ? __builtin_memcpy(packed, a.at(row, 0), bytes)
                 : __builtin_memset(packed, 0, bytes);
    }
  }
};

// Of a transposed operand columns are contiguous: a term of all rows of a tile, then the next term.
struct ByTerm {
  static constexpr int64_t kRow = 1, kTerm = kTileRows;
  static const float* tile(const float* packed, int64_t row, int64_t depth) {
    return packed + row * depth;
  }
  static void pack(GemmMatrix a, int64_t rows, int64_t depth, float* packed) {
    const int64_t whole = rows / kTileRows * kTileRows;
    for (int64_t k = 0; k < depth; ++k, packed += kTileRows) {
      const float* column = a.at(0, k);
      float* out = packed;
      for (int64_t row = 0; row < whole; row += kTileRows, out += depth * kTileRows) {
        __builtin_memcpy(out, column + row, kTileRows * sizeof(float));
      }
      if (whole == rows) continue;
      for (int64_t i = 0; i < kTileRows; ++i) out[i] = whole + i < rows ? column[whole + i] : 0;
    }
  }
};

template <class Left, bool kAdd>
void multiply_tile(const float* a, const float* panel, float* c, int64_t c_stride, int64_t depth) {
  Vector sum[kTileRows][kTileVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kTileVectors; ++j) sum[i][j] = Vector{};
  }
#pragma GCC unroll 2
  for (int64_t k = 0; k < depth; ++k, a += Left::kTerm, panel += kColumns) {
    Vector right[kTileVectors];
#pragma GCC unroll 2
    for (int j = 0; j < kTileVectors; ++j) {
      right[j] = *reinterpret_cast<const Vector*>(panel + j * kLanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i) {
      const Vector left = Vector{} + a[i * Left::kRow];
#pragma GCC unroll 2
      for (int j = 0; j < kTileVectors; ++j) sum[i][j] += left * right[j];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kTileVectors; ++j) {
      float* out = c + i * c_stride + j * kLanes;  // aligned as its elements are
      if constexpr (kAdd) {
        Vector before;
        __builtin_memcpy(&before, out, sizeof before);
        sum[i][j] = before + sum[i][j];
      }
      __builtin_memcpy(out, &sum[i][j], sizeof(Vector));
    }
  }
}

// A tile of which c has only some rows and columns.
template <class Left>
void multiply_edge(const float* a, const float* panel, float* c, int64_t c_stride, int64_t depth,
                   int64_t rows, int64_t columns, bool add) {
  alignas(64) float tile[kTileRows * kColumns];
  multiply_tile<Left, false>(a, panel, tile, kColumns, depth);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      float& out = c[i * c_stride + j];
      out = add ? out + tile[i * kColumns + j] : tile[i * kColumns + j];
    }
  }
}

template <class Left>
void multiply_packed(GemmMatrix a, int64_t rows, int64_t depth, const float* panels,
                     int64_t columns, float* c, int64_t c_stride, bool add, float* packed) {
  Left::pack(a, rows, depth, packed);
  for (int64_t column = 0; column < columns; column += kColumns, panels += depth * kColumns) {
    const int64_t wide = smaller(kColumns, columns - column);
    for (int64_t row = 0; row < rows; row += kTileRows) {
      const int64_t high = smaller(kTileRows, rows - row);
      const float* left = Left::tile(packed, row, depth);
      float* out = c + row * c_stride + column;
      if (high < kTileRows || wide < kColumns) {
        multiply_edge<Left>(left, panels, out, c_stride, depth, high, wide, add);
      } else if (add) {
        multiply_tile<Left, true>(left, panels, out, c_stride, depth);
      } else {
        multiply_tile<Left, false>(left, panels, out, c_stride, depth);
      }
    }
  }
}

void multiply(GemmMatrix a, int64_t rows, int64_t depth, const float* panels, int64_t columns,
              float* c, int64_t c_stride, bool add, float* scratch) {
  const auto f = a.column_stride == 1 ? multiply_packed<ByRow> : multiply_packed<ByTerm>;
  f(a, rows, depth, panels, columns, c, c_stride, add, scratch);
}

}  // namespace

extern const CpuGemm kGemm;
const CpuGemm kGemm = {kTileRows, kColumns, kGemmRows* kRowStride, pack_panel, multiply};

}  // namespace lmtrain::LMTRAIN_ISA
