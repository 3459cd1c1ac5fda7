#include "ops/cpu_kernels.h"

namespace lmtrain {

#define LMTRAIN_DECLARE_TABLES(isa)      \
  namespace isa {                        \
  extern const CpuKernels<float> kFloat; \
  extern const CpuKernels<Bf16> kBf16;   \
  }
LMTRAIN_DECLARE_TABLES(baseline)
LMTRAIN_DECLARE_TABLES(avx2)
LMTRAIN_DECLARE_TABLES(avx512)
#undef LMTRAIN_DECLARE_TABLES

namespace {

enum class Isa { kBaseline, kAvx2, kAvx512 };

Isa best_isa() {
  static const Isa isa = [] {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512cd")) {
      return Isa::kAvx512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2")) {
      return Isa::kAvx2;
    }
    return Isa::kBaseline;
  }();
  return isa;
}

}  // namespace

template <>
const CpuKernels<float>& cpu_kernels<float>() {
  switch (best_isa()) {
    case Isa::kAvx512:
      return avx512::kFloat;
    case Isa::kAvx2:
      return avx2::kFloat;
    case Isa::kBaseline:
      break;
  }
  return baseline::kFloat;
}

template <>
const CpuKernels<Bf16>& cpu_kernels<Bf16>() {
  switch (best_isa()) {
    case Isa::kAvx512:
      return avx512::kBf16;
    case Isa::kAvx2:
      return avx2::kBf16;
    case Isa::kBaseline:
      break;
  }
  return baseline::kBf16;
}

const char* cpu_kernels_isa() {
  switch (best_isa()) {
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kBaseline:
      break;
  }
  return "baseline";
}

}  // namespace lmtrain
