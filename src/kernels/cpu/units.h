// The arithmetics of products on a CPU: how each packs numbers, and how it multiplies them.
//
// A product sums over units of 4 bytes: one fp32 number (F32), one bf16 number widened to fp32
// when packed (Bf16ToF32), or a pair of bf16 numbers that are neighbours in the dimension summed
// over (Bf16DotPairs, for processors that are fast at pairs; Bf16MatrixUnits of
// kernels/cpu/matrix_units.h). All arithmetics share one memory layout. Compiled per instruction
// set (kernels/cpu/vectors.h).
#pragma once

#include <cstddef>

#include "kernels/cpu/vectors.h"
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

namespace lmtrain::LMTRAIN_ISA {

// Counts of rows, columns and numbers are padded to multiples of this.
inline constexpr int64_t kPad = 16;
inline int64_t padded(int64_t count) { return (count + kPad - 1) / kPad * kPad; }

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// Copies like memcpy, without a call: most of what products copy is a few vectors long.
inline void copy_bytes(const void* in, int64_t bytes, void* out) {
  const auto* from = static_cast<const char*>(in);
  auto* to = static_cast<char*>(out);
  int64_t i = 0;
  for (; i + int64_t{sizeof(Bits)} <= bytes; i += int64_t{sizeof(Bits)}) {
    Bits x;
    __builtin_memcpy(&x, from + i, sizeof x);
    __builtin_memcpy(to + i, &x, sizeof x);
  }
  if (i < bytes) __builtin_memcpy(to + i, from + i, static_cast<std::size_t>(bytes - i));
}

// fetch() fetches `bytes` bytes of a row into the cache. If rows lie apart, which processors do not
// foresee, a row is fetched this many rows ahead.
inline constexpr int64_t kPrefetchRows = 16;
inline void fetch(const void* row, int64_t bytes) {
  constexpr int64_t kLine = 64;
  for (int64_t i = 0; i < bytes; i += kLine) __builtin_prefetch(static_cast<const char*>(row) + i);
}

// A Left is a left operand of a product: unit u of row r is data[r * row_stride + u * unit_stride].
template <class Unit>
struct Left {
  const Unit* data;
  int64_t row_stride;
  int64_t unit_stride;
};

// The part of a product that is computed, for blocks on the diagonal of a causal matrix.
enum class Part {
  kAll,
  kLowerResult,  // columns of the result up to the row; some columns more may be written
  kLowerLeft,    // numbers of the left operand up to the row; the others are 0
  kUpperLeft,    // numbers of the left operand from the row on; the others are 0
};

// A unit is one fp32 number.
struct F32 {
  using Number = float;
  using Unit = float;
  using Units = Vector;
  static constexpr int64_t kNumbers = 1;  // numbers in a unit
  // Whether units have the bits of the numbers in memory, so that they can be read there.
  static constexpr bool kAsStored = true;

  // A thread keeps an object of it while it multiplies; here it does nothing.
  struct Registers {};

  static Vector multiply_add(Vector sum, Unit a, Units b) { return sum + a * b; }

  // Packs contiguous numbers, one vector of units.
  static void pack_vector(const float* x, Unit* out) { copy_bytes(x, sizeof(Bits), out); }

  // Packs x[rows][size], rows `stride` numbers apart, as units [padded_rows][width], with zeros
  // beyond `rows` and `size`.
  template <class T>
  static void pack_rows(const T* x, int64_t stride, int64_t rows, int64_t size, int64_t padded_rows,
                        Unit* out, int64_t width) {
    for (int64_t row = 0; row < padded_rows; ++row, x += stride, out += width) {
      const int64_t used = row < rows ? size : 0;
      if (row + kPrefetchRows < rows) fetch(x + kPrefetchRows * stride, size * int64_t{sizeof(T)});
      if constexpr (sizeof(T) == sizeof(Unit)) {
        copy_bytes(x, used * int64_t{sizeof(Unit)}, out);
      } else {
#pragma omp simd
        for (int64_t i = 0; i < used; ++i) out[i] = load(x + i);
      }
      for (int64_t i = used; i < width; ++i) out[i] = 0;
    }
  }

  // Packs `count` contiguous numbers of one term of the sums as units: of a row of a right operand,
  // or of a column of a left operand.
  [[gnu::always_inline]] static void join(const float* term, const float*, int64_t count, int64_t,
                                          Unit* out) {
    copy_bytes(term, count * int64_t{sizeof(Unit)}, out);
  }

  // These return scores[rows][columns], rows `stride` floats apart, as the left operand of a
  // product that sums over columns (by_row) or over rows (by_column). bf16 writes the units to the
  // last argument; here it is not used.
  static Left<Unit> by_row(const float* scores, int64_t stride, int64_t, int64_t, Unit*) {
    return {scores, stride, 1};
  }
  static Left<Unit> by_column(const float* scores, int64_t stride, int64_t, int64_t, Unit*) {
    return {scores, 1, stride};
  }
};

#ifdef __AVX512BF16__
using Halves [[gnu::vector_size(2 * kLanes)]] = uint16_t;

// Returns the kLanes bf16 numbers of x from number i on, each in the low half of a lane. x has
// `count` numbers, and `readable` can be read; lanes beyond `count` hold 0 or the next numbers.
inline Bits low_halves(const Bf16* x, int64_t i, int64_t count, int64_t readable) {
  __m256i numbers;
  if (i + kLanes <= readable) {
    __builtin_memcpy(&numbers, x + i, sizeof numbers);
  } else {  // which AMD's processors are slow at
    const auto used = static_cast<__mmask16>((1 << (count - i)) - 1);
    numbers = _mm256_maskz_loadu_epi16(used, x + i);
  }
  // The unmasked intrinsic makes GCC 12 warn of its own header.
  return __builtin_bit_cast(Bits, _mm512_maskz_cvtepu16_epi32(0xFFFF, numbers));
}

inline Halves rounded(Vector x) {
  return __builtin_bit_cast(Halves, _mm512_cvtneps_pbh(__builtin_bit_cast(__m512, x)));
}

// A unit is one bf16 number widened to fp32.
struct Bf16ToF32 : F32 {
  using Number = Bf16;
  static constexpr bool kAsStored = false;

  static void pack_vector(const Bf16* x, Unit* out) {
    const Bits units = low_halves(x, 0, kLanes, kLanes) << 16;
    __builtin_memcpy(out, &units, sizeof units);
  }

  static void join(const Bf16* term, const Bf16*, int64_t count, int64_t readable, Unit* out) {
    for (int64_t i = 0; i < count; i += kLanes) {
      const Bits units = low_halves(term, i, count, readable) << 16;
      __builtin_memcpy(out + i, &units, sizeof units);
    }
  }
};

// A unit is a pair of bf16 numbers, the first in its low half.
struct Bf16DotPairs {
  using Number = Bf16;
  using Unit = uint32_t;
  using Units = Bits;
  static constexpr int64_t kNumbers = 2;
  static constexpr bool kAsStored = true;

  struct Registers {};

  static void pack_vector(const Bf16* x, Unit* out) { copy_bytes(x, sizeof(Bits), out); }

  static Vector multiply_add(Vector sum, Unit a, Units b) {
    const Bits everywhere = Bits{} + a;
    return _mm512_dpbf16_ps(sum, __builtin_bit_cast(__m512bh, everywhere),
                            __builtin_bit_cast(__m512bh, b));
  }

  static void pack_rows(const Bf16* x, int64_t stride, int64_t rows, int64_t size,
                        int64_t padded_rows, Unit* out, int64_t width) {
    for (int64_t row = 0; row < padded_rows; ++row, x += stride, out += width) {
      const int64_t used = row < rows ? size * int64_t{sizeof(Bf16)} : 0;
      if (row + kPrefetchRows < rows) fetch(x + kPrefetchRows * stride, used);
      const int64_t more = width * int64_t{sizeof(Unit)} - used;
      copy_bytes(x, used, out);
      if (more > 0) {
        __builtin_memset(reinterpret_cast<char*>(out) + used, 0, static_cast<std::size_t>(more));
      }
    }
  }

  // Packs `count` contiguous numbers of one term and of the next term as pairs; a null `second`
  // counts as zeros. `readable` numbers of each can be read. May write beyond `count`, up to the
  // end of a vector.
  static void join(const Bf16* first, const Bf16* second, int64_t count, int64_t readable,
                   Unit* out) {
    for (int64_t i = 0; i < count; i += kLanes) {
      const Bits low = low_halves(first, i, count, readable);
      const Bits units =
          second == nullptr ? low : low | low_halves(second, i, count, readable) << 16;
      __builtin_memcpy(out + i, &units, sizeof units);
    }
  }

  // Makes units [rows / 2][columns] that pair numbers of two neighbouring rows, from units
  // [rows][columns / 2] that pair neighbours in a row.
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

  static Left<Unit> by_row(const float* scores, int64_t stride, int64_t rows, int64_t columns,
                           Unit* out) {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < columns; i += kLanes) {
        const Halves numbers = rounded_at(scores + row * stride + i);
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
        const Bits low = __builtin_convertvector(rounded_at(first), Bits);
        const Bits high = __builtin_convertvector(rounded_at(first + stride), Bits);
        *reinterpret_cast<Bits*>(out + row / 2 * stride + i) = low | high << 16;
      }
    }
    return {out, 1, stride};
  }

 private:
  static Halves rounded_at(const float* x) { return rounded(*reinterpret_cast<const Vector*>(x)); }
};
#endif

// Makes units [columns][rows] from units [rows][columns]. Strides are in units, both counts are
// multiples of kLanes, and rows of the result are aligned to a vector.
template <class Unit>
void transpose(const Unit* in, int64_t in_stride, int64_t rows, int64_t columns, Unit* out,
               int64_t out_stride) {
#define LMTRAIN_FIRST_HALVES(lane) ((lane) % 2 * kLanes + (lane) / 2)
#define LMTRAIN_SECOND_HALVES(lane) (LMTRAIN_FIRST_HALVES(lane) + kLanes / 2)
  for (int64_t row = 0; row < rows; row += kLanes) {
    for (int64_t column = 0; column < columns; column += kLanes) {
      Bits x[kLanes], y[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        __builtin_memcpy(&x[i], in + (row + i) * in_stride + column, sizeof x[i]);
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

}  // namespace lmtrain::LMTRAIN_ISA
