// Loads, stores and computes with elements and vectors in the instruction set that the includer is
// compiled for.
//
// Only sources that are compiled once an instruction set, named by LMTRAIN_ISA, include it. All of
// it lies in the namespace of that name, so that the linker never takes a function compiled for
// another one. So it includes no header with inline functions of the standard library.
#pragma once

#include <cstdint>

#include "kernels/cpu/kernels.h"

namespace lmtrain::LMTRAIN_ISA {

inline float load(const float* p) { return *p; }
inline float load(const Bf16* p) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(p->bits) << 16);
}
inline void store(float* p, float x) { *p = x; }
inline void store(Bf16* p, float x) {
  // Round to nearest even; a NaN stays a NaN.
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  p->bits = static_cast<uint16_t>(x != x ? 0x7FC0U : rounded);
}

// kLanes is the number of floats in a vector register. A Vector holds floats, Mask and Bits
// integers of the same size; GCC and Clang give them arithmetic, comparison and `?:` by element.
#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif
using Vector [[gnu::vector_size(4 * kLanes)]] = float;
using Mask [[gnu::vector_size(4 * kLanes)]] = int32_t;
using Bits [[gnu::vector_size(4 * kLanes), gnu::may_alias]] = uint32_t;

template <class V>
struct BitsOf;
template <>
struct BitsOf<float> {
  using Type = uint32_t;
};
template <>
struct BitsOf<Vector> {
  using Type = Bits;
};

// The numbers of exp_approx().
struct Exp {
  static constexpr float kLeast = -87.0F, kMost = 88.0F;
  static constexpr float kLog2e = 1.44269504088896341F;
  static constexpr float kLn2High = 0.693359375F;
  static constexpr float kLn2Low = -2.12194440e-4F;
  // 1.5 * 2^23 + 127: adding it rounds to an integer, with an exponent's bias in the lowest bits.
  static constexpr float kRound = 12583039.0F;
  static constexpr float kP5 = 1.9875691500e-4F, kP4 = 1.3981999507e-3F, kP3 = 8.3334519073e-3F,
                         kP2 = 4.1665795894e-2F, kP1 = 1.6666665459e-1F, kP0 = 5.0000001201e-1F;
};

// Returns exp(x) to within 2 ulp on [-87, 88] (Cody & Waite reduction, degree-6 polynomial). Below
// it returns exp(-87), about 1.6e-38, and above it exp(88), about 1.7e38; NaN stays NaN. V is float
// or Vector.
template <class V>
inline V exp_approx(V x) {
  x = Exp::kLeast > x ? Exp::kLeast : x;  // so ordered, both are one instruction and pass a NaN on
  x = Exp::kMost < x ? Exp::kMost : x;
  const V shifted = x * Exp::kLog2e + Exp::kRound;
  const V n = shifted - Exp::kRound;
  const V r = (x - n * Exp::kLn2High) - n * Exp::kLn2Low;
  V p = Exp::kP5 * r + Exp::kP4;
  p = p * r + Exp::kP3;
  p = p * r + Exp::kP2;
  p = p * r + Exp::kP1;
  p = p * r + Exp::kP0;
  p = p * r * r + r + 1.0F;
  // Times 2^n in floating point: adding n to the exponent's bits would turn some NaNs into numbers.
  using U = typename BitsOf<V>::Type;
  const U power = __builtin_bit_cast(U, shifted) << 23;
  return p * __builtin_bit_cast(V, power);
}

// Returns 0, 1, 2, ... by lane.
inline Mask lane_numbers() {
  Mask lanes;
  for (int i = 0; i < kLanes; ++i) lanes[i] = i;
  return lanes;
}

// Lane i of the result is lane index(i) of x and y, whose lanes are numbered x's first, then y's.
#if defined(__AVX512F__)
#define LMTRAIN_SHUFFLE(x, y, index)                                                               \
  __builtin_shufflevector(x, y, index(0), index(1), index(2), index(3), index(4), index(5),        \
                          index(6), index(7), index(8), index(9), index(10), index(11), index(12), \
                          index(13), index(14), index(15))
#elif defined(__AVX2__)
#define LMTRAIN_SHUFFLE(x, y, index)                                                        \
  __builtin_shufflevector(x, y, index(0), index(1), index(2), index(3), index(4), index(5), \
                          index(6), index(7))
#else
#define LMTRAIN_SHUFFLE(x, y, index) \
  __builtin_shufflevector(x, y, index(0), index(1), index(2), index(3))
#endif

// Returns all lanes combined by f, in a fixed order.
template <int kDistance = kLanes / 2, class F>
inline float reduce(Vector x, F f) {
#define LMTRAIN_PARTNER(lane) ((lane) ^ kDistance)
  x = f(x, LMTRAIN_SHUFFLE(x, x, LMTRAIN_PARTNER));
#undef LMTRAIN_PARTNER
  if constexpr (kDistance > 1) {
    return reduce<kDistance / 2>(x, f);
  } else {
    return x[0];
  }
}

inline Vector larger(Vector a, Vector b) { return b > a ? b : a; }  // returns a where b is NaN
inline float largest_lane(Vector x) {
  return reduce(x, [](Vector a, Vector b) { return larger(a, b); });
}
// Returns a vector with the largest lane of x[i] in lane i; overwrites x.
inline Vector largest_lanes(Vector (&x)[kLanes]) {
#define LMTRAIN_EVEN(lane) (2 * (lane))
#define LMTRAIN_ODD(lane) (2 * (lane) + 1)
#pragma GCC unroll 4
  for (int count = kLanes / 2; count > 0; count /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < count; ++i) {
      x[i] = larger(LMTRAIN_SHUFFLE(x[2 * i], x[2 * i + 1], LMTRAIN_EVEN),
                    LMTRAIN_SHUFFLE(x[2 * i], x[2 * i + 1], LMTRAIN_ODD));
    }
  }
#undef LMTRAIN_EVEN
#undef LMTRAIN_ODD
  return x[0];
}
inline float sum_of_lanes(Vector x) {
  return reduce(x, [](Vector a, Vector b) { return a + b; });
}

}  // namespace lmtrain::LMTRAIN_ISA
