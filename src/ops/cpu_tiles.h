// Products of small matrices held in the cache, for operators that fuse around them.
//
// A product sums over `depth` units. A unit is 4 bytes: one fp32 number (Singles), or a pair of
// bf16 numbers that are neighbours in the dimension summed over (Pairs, for processors whose
// instruction multiplies pairs and adds in fp32). Both thus have one memory layout and one loop:
//
//   left operand   units [row][unit] or [unit][row], read one at a time: two strides
//   right operand  units [unit][column], rows contiguous
//   result         fp32  [row][column]
//
// Rows and columns are multiples of kPad, everything is 64-byte aligned. Compiled per instruction
// set (cpu_vectors.h).
#pragma once

#include "ops/cpu_vectors.h"
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

namespace lmtrain::LMTRAIN_ISA {

inline constexpr int64_t kPad = 16;
inline int64_t padded(int64_t count) { return (count + kPad - 1) / kPad * kPad; }

template <class Unit>
struct Left {
  const Unit* data;
  int64_t row_stride;
  int64_t unit_stride;
};

// fp32 numbers.
struct Singles {
  using Unit = float;
  using Units = Vector;
  static constexpr int64_t kNumbers = 1;  // in a unit

  static Vector multiply_add(Vector sum, Unit a, Units b) { return sum + a * b; }

  // x[rows][size], `stride` apart, as units [rows][width]; zeros beyond `rows` and `size`.
  template <class T>
  static void pack_rows(const T* x, int64_t stride, int64_t rows, int64_t size, int64_t padded_rows,
                        Unit* out, int64_t width) {
    for (int64_t row = 0; row < padded_rows; ++row, x += stride, out += width) {
      const int64_t used = row < rows ? size : 0;
#pragma omp simd
      for (int64_t i = 0; i < used; ++i) out[i] = load(x + i);
      for (int64_t i = used; i < width; ++i) out[i] = 0;
    }
  }

  // scores[rows][kStride] as a left operand: summed over columns, or over rows.
  static Left<Unit> by_row(const float* scores, int64_t stride, int64_t, int64_t, Unit*) {
    return {scores, stride, 1};
  }
  static Left<Unit> by_column(const float* scores, int64_t stride, int64_t, int64_t, Unit*) {
    return {scores, 1, stride};
  }
};

#ifdef __AVX512BF16__
// Pairs of bf16 numbers; the first in the low half.
struct Pairs {
  using Unit = uint32_t;
  using Units = Bits;
  static constexpr int64_t kNumbers = 2;

  static Vector multiply_add(Vector sum, Unit a, Units b) {
    const Bits everywhere = Bits{} + a;
    return _mm512_dpbf16_ps(sum, __builtin_bit_cast(__m512bh, everywhere),
                            __builtin_bit_cast(__m512bh, b));
  }

  static void pack_rows(const Bf16* x, int64_t stride, int64_t rows, int64_t size,
                        int64_t padded_rows, Unit* out, int64_t width) {
    for (int64_t row = 0; row < padded_rows; ++row, x += stride, out += width) {
      const auto used = row < rows ? static_cast<size_t>(size) * sizeof(Bf16) : 0;
      auto* bytes = reinterpret_cast<char*>(out);
      __builtin_memcpy(bytes, x, used);
      __builtin_memset(bytes + used, 0, static_cast<size_t>(width) * sizeof(Unit) - used);
    }
  }

  // Units [rows / 2][columns] out of units [rows][columns / 2]: the pair is one row's and the
  // next's.
  static void pair_rows(const Unit* in, int64_t in_stride, int64_t rows, int64_t columns,
                        Unit* out) {
    for (int64_t row = 0; row < rows; row += 2, in += 2 * in_stride, out += columns) {
#pragma omp simd
      for (int64_t i = 0; i < columns / 2; ++i) {
        const Unit first = in[i], second = in[in_stride + i];
        out[2 * i] = (first & 0xFFFFU) | second << 16;
        out[2 * i + 1] = first >> 16 | (second & 0xFFFF0000U);
      }
    }
  }

  using Halves [[gnu::vector_size(2 * kLanes)]] = uint16_t;
  static Halves rounded(const float* x) {
    return __builtin_bit_cast(Halves, _mm512_cvtneps_pbh(__builtin_bit_cast(
                                          __m512, *reinterpret_cast<const Vector*>(x))));
  }
  static Left<Unit> by_row(const float* scores, int64_t stride, int64_t rows, int64_t columns,
                           Unit* out) {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < columns; i += kLanes) {
        const Halves numbers = rounded(scores + row * stride + i);
        __builtin_memcpy(out + (row * stride + i) / 2, &numbers, sizeof numbers);
      }
    }
    return {out, stride / 2, 1};
  }
  static Left<Unit> by_column(const float* scores, int64_t stride, int64_t rows, int64_t columns,
                              Unit* out) {
    for (int64_t row = 0; row < rows; row += 2) {
      for (int64_t i = 0; i < columns; i += kLanes) {
        const float* first = scores + row * stride + i;
        const Bits low = __builtin_convertvector(rounded(first), Bits);
        const Bits high = __builtin_convertvector(rounded(first + stride), Bits);
        *reinterpret_cast<Bits*>(out + row / 2 * stride + i) = low | high << 16;
      }
    }
    return {out, 1, stride};
  }
};
#endif

// Units [columns][rows] out of units [rows][columns]. Both counts are multiples of kLanes.
template <class Unit>
void transpose(const Unit* in, int64_t in_stride, int64_t rows, int64_t columns, Unit* out,
               int64_t out_stride) {
#define LMTRAIN_FIRST_HALVES(lane) ((lane) % 2 * kLanes + (lane) / 2)
#define LMTRAIN_SECOND_HALVES(lane) (LMTRAIN_FIRST_HALVES(lane) + kLanes / 2)
  for (int64_t row = 0; row < rows; row += kLanes) {
    for (int64_t column = 0; column < columns; column += kLanes) {
      Bits x[kLanes], y[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        x[i] = *reinterpret_cast<const Bits*>(in + (row + i) * in_stride + column);
      }
      // Interleaving the first half of the rows with the second is a perfect shuffle of the whole
      // square; log2(kLanes) of them are its transposition.
#pragma GCC unroll 4
      for (int round = 1; round < kLanes; round *= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < kLanes / 2; ++i) {
          y[2 * i] = LMTRAIN_SHUFFLE(x[i], x[i + kLanes / 2], LMTRAIN_FIRST_HALVES);
          y[2 * i + 1] = LMTRAIN_SHUFFLE(x[i], x[i + kLanes / 2], LMTRAIN_SECOND_HALVES);
        }
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) x[i] = y[i];
      }
      for (int i = 0; i < kLanes; ++i) {
        *reinterpret_cast<Bits*>(out + (column + i) * out_stride + row) = x[i];
      }
    }
  }
#undef LMTRAIN_FIRST_HALVES
#undef LMTRAIN_SECOND_HALVES
}

// A register tile: kRows x kVectors accumulators, which fill the registers that operands leave.
#if defined(__AVX512F__)
inline constexpr int kTileRows = 8;
#else
inline constexpr int kTileRows = 4;
#endif
inline constexpr int kTileVectors = 2;

template <class Arithmetic, int kVectors>
inline void multiply_tile(const typename Arithmetic::Unit* a, int64_t row_stride,
                          int64_t unit_stride, const typename Arithmetic::Unit* b, int64_t b_stride,
                          float* c, int64_t c_stride, int64_t depth, bool add) {
  Vector sum[kTileRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      sum[i][j] = add ? *reinterpret_cast<const Vector*>(c + i * c_stride + j * kLanes) : Vector{};
    }
  }
  for (int64_t unit = 0; unit < depth; ++unit, a += unit_stride, b += b_stride) {
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
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      *reinterpret_cast<Vector*>(c + i * c_stride + j * kLanes) = sum[i][j];
    }
  }
}

// What of a product is wanted, in blocks on the diagonal of a causal matrix.
enum class Part {
  kAll,
  kLowerResult,  // of the result, columns up to the row
  kLowerLeft,    // of the left operand, numbers up to the row; the others are 0
  kUpperLeft,    // numbers from the row on
};

// c = a b, or c += a b. `depth` in units.
template <class Arithmetic>
void multiply(Left<typename Arithmetic::Unit> a, const typename Arithmetic::Unit* b,
              int64_t b_stride, float* c, int64_t c_stride, int64_t rows, int64_t columns,
              int64_t depth, bool add, Part part) {
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
          c + row * c_stride + column, c_stride, last - first, add);
    }
    if (column < wanted) {
      multiply_tile<Arithmetic, 1>(left, a.row_stride, a.unit_stride, b + first * b_stride + column,
                                   b_stride, c + row * c_stride + column, c_stride, last - first,
                                   add);
    }
  }
}

}  // namespace lmtrain::LMTRAIN_ISA
