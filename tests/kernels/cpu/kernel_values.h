// Elements of kernels as numbers, whatever their type, and the kernels of each instruction set.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "base/random.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/tables.h"

namespace lmtrain {

inline double value(float x) { return x; }
inline double value(Bf16 x) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(x.bits) << 16);
}
inline void set(float& element, double x) { element = static_cast<float>(x); }
// Truncates: the inputs need only be bf16 numbers.
inline void set(Bf16& element, double x) {
  element.bits = static_cast<uint16_t>(__builtin_bit_cast(uint32_t, static_cast<float>(x)) >> 16);
}

// The kernels of an instruction set: "avx512", "avx2" or "baseline".
template <class T>
const CpuKernels<T>& table(const std::string& isa);
template <>
inline const CpuKernels<float>& table<float>(const std::string& isa) {
  return isa == "avx512" ? avx512::kFloat : isa == "avx2" ? avx2::kFloat : baseline::kFloat;
}
template <>
inline const CpuKernels<Bf16>& table<Bf16>(const std::string& isa) {
  return isa == "avx512" ? avx512::kBf16 : isa == "avx2" ? avx2::kBf16 : baseline::kBf16;
}

// Random numbers as from a normal distribution of this spread.
template <class T>
std::vector<T> normals(int64_t count, uint64_t seed, double spread = 1.0) {
  std::vector<T> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    set(values[i], spread * random_normal(seed, RandomStream::kBench, i));
  }
  return values;
}

// What a kernel's element may differ from the exact number, for each 1 of it.
template <class T>
constexpr double tolerance() {
  return std::is_same_v<T, float> ? 1e-5 : 8e-3;  // half of a bf16's last bit is 2^-9
}

}  // namespace lmtrain
