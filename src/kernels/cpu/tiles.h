// Multiplies small matrices that are held in the cache, for operators that fuse around the product.
//
// The left operand is units (kernels/cpu/units.h) [row][unit] or [unit][row], read one by one, with
// a stride for each index. The right operand is units [unit][column], the result fp32
// [row][column]; the rows of both are contiguous.
//
// Rows and columns must be multiples of kPad, and everything 64-byte aligned. Compiled per
// instruction set (kernels/cpu/vectors.h).
#pragma once

#include "kernels/cpu/units.h"

namespace lmtrain::LMTRAIN_ISA {

// A register tile has kTileRows x kTileVectors accumulators, which fill the registers that operands
// leave.
#if defined(__AVX512F__)
inline constexpr int kTileRows = 8;
#else
inline constexpr int kTileRows = 4;
#endif
inline constexpr int kTileVectors = 2;
// The number of units multiplied at a time. Depths are multiples of kTileRows numbers, and so of
// this many units.
inline constexpr int kUnitsTogether = 4;

// Computes one tile of c = a b, or c += a b if `add`: kTileRows rows and kVectors vectors of
// columns. `depth`, in units, is a multiple of kUnitsTogether.
template <class Arithmetic, int kVectors, class F>
inline void multiply_tile(const typename Arithmetic::Unit* a, int64_t row_stride,
                          int64_t unit_stride, const typename Arithmetic::Unit* b, int64_t b_stride,
                          float* c, int64_t c_stride, int64_t depth, bool add, F& beside) {
  Vector sum[kTileRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      sum[i][j] = add ? *reinterpret_cast<const Vector*>(c + i * c_stride + j * kLanes) : Vector{};
    }
  }
  for (int64_t unit = 0; unit < depth; unit += kUnitsTogether) {
    beside();
#pragma GCC unroll 4
    for (int k = 0; k < kUnitsTogether; ++k, a += unit_stride, b += b_stride) {
      typename Arithmetic::Units right[kVectors];
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) {
        right[j] = *reinterpret_cast<const typename Arithmetic::Units*>(b + j * kLanes);
      }
#pragma GCC unroll 8
      for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) {
          sum[i][j] = Arithmetic::multiply_add(sum[i][j], a[i * row_stride], right[j]);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      *reinterpret_cast<Vector*>(c + i * c_stride + j * kLanes) = sum[i][j];
    }
  }
}

// The part of a product that is wanted, in blocks on the diagonal of a causal matrix.
enum class Part {
  kAll,
  kLowerResult,  // columns of the result up to the row; more may be written, the rest is not
  kLowerLeft,    // numbers of the left operand up to the row; the others are 0
  kUpperLeft,    // numbers of the left operand from the row on; the others are 0
};

// Computes c = a b, or c += a b if `add`. `depth` and the strides of `a` and `b` are in units.
// Calls beside() at every kUnitsTogether units of a tile.
template <class Arithmetic, class F>
void multiply(Left<typename Arithmetic::Unit> a, const typename Arithmetic::Unit* b,
              int64_t b_stride, float* c, int64_t c_stride, int64_t rows, int64_t columns,
              int64_t depth, bool add, Part part, F& beside) {
  for (int64_t row = 0; row < rows; row += kTileRows) {
    const int64_t end = row + kTileRows;
    const auto up_to = [](int64_t some, int64_t all) { return some < all ? some : all; };
    const int64_t wanted = part == Part::kLowerResult ? up_to(padded(end), columns) : columns;
    const int64_t first = part == Part::kUpperLeft ? row / Arithmetic::kNumbers : 0;
    const int64_t last = part == Part::kLowerLeft
                             ? up_to((end + Arithmetic::kNumbers - 1) / Arithmetic::kNumbers, depth)
                             : depth;
    const auto* left = a.data + row * a.row_stride + first * a.unit_stride;
    int64_t column = 0;
    for (; column + kTileVectors * kLanes <= wanted; column += kTileVectors * kLanes) {
      multiply_tile<Arithmetic, kTileVectors>(
          left, a.row_stride, a.unit_stride, b + first * b_stride + column, b_stride,
          c + row * c_stride + column, c_stride, last - first, add, beside);
    }
    if (column < wanted) {
      multiply_tile<Arithmetic, 1>(left, a.row_stride, a.unit_stride, b + first * b_stride + column,
                                   b_stride, c + row * c_stride + column, c_stride, last - first,
                                   add, beside);
    }
  }
}

}  // namespace lmtrain::LMTRAIN_ISA
