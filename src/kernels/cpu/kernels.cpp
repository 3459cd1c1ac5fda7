#include "kernels/cpu/kernels.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "kernels/cpu/tables.h"

namespace lmtrain {

namespace {

enum class Isa { kBaseline, kAvx2, kAvx512, kAvx512Bf16, kAmxBf16 };

// Returns whether this process may use Intel's matrix units (amx_tile and amx_bf16: leaf 7.0, EDX
// bits 24 and 22), for which it asks the system. Call it only where AVX-512 is enabled: it reads
// XCR0, whose bits 17 and 18 say that the system saves tile registers.
bool may_use_matrix_units() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kUnits = 1U << 24 | 1U << 22;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kUnits) != kUnits) return false;
  constexpr unsigned kTiles = 3U << 17;
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & kTiles) != kTiles) return false;
  constexpr int kArchReqXcompPerm = 0x1023, kXfeatureXtiledata = 18;  // of Linux
  return ::syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtiledata) == 0;
}

// The most that the environment allows, by the variable and the words of PyTorch's own kernels.
Isa allowed_isa() {
  const char* capability = std::getenv("ATEN_CPU_CAPABILITY");
  const std::string_view name = capability == nullptr ? "" : capability;
  if (name == "default") return Isa::kBaseline;
  return name == "avx2" ? Isa::kAvx2 : Isa::kAmxBf16;
}

// The best that the processor has, up to `allowed`.
Isa best_isa_up_to(Isa allowed) {
  if (allowed >= Isa::kAvx512 && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd")) {
    if (!__builtin_cpu_supports("avx512bf16")) return Isa::kAvx512;
    return may_use_matrix_units() ? Isa::kAmxBf16 : Isa::kAvx512Bf16;
  }
  if (allowed >= Isa::kAvx2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2")) {
    return Isa::kAvx2;
  }
  return Isa::kBaseline;
}

Isa best_isa() {
  static const Isa isa = best_isa_up_to(allowed_isa());
  return isa;
}

// Returns the best of three tables for this processor.
template <class Table>
const Table& best_of(const Table& baseline, const Table& avx2, const Table& avx512) {
  return best_isa() >= Isa::kAvx512 ? avx512 : best_isa() == Isa::kAvx2 ? avx2 : baseline;
}

// Whether an instruction on pairs of bf16 numbers takes less time than two on fp32 numbers. On
// Intel's cores it takes the time of four.
bool multiplies_pairs_fast() {
  return best_isa() == Isa::kAvx512Bf16 && __builtin_cpu_is("intel") == 0;
}

}  // namespace

template <>
const CpuKernels<float>& cpu_kernels<float>() {
  return best_of(baseline::kFloat, avx2::kFloat, avx512::kFloat);
}

template <>
const CpuKernels<Bf16>& cpu_kernels<Bf16>() {
  return best_of(baseline::kBf16, avx2::kBf16, avx512::kBf16);
}

template <>
const CpuAttention<float>& cpu_attention<float>() {
  return best_of(baseline::kAttentionFloat, avx2::kAttentionFloat, avx512::kAttentionFloat);
}

template <>
const CpuAttention<Bf16>& cpu_attention<Bf16>() {
  if (best_isa() == Isa::kAmxBf16) return amx::kAttentionBf16;
  if (multiplies_pairs_fast()) return avx512bf16::kAttentionBf16;
  return best_of(baseline::kAttentionBf16, avx2::kAttentionBf16, avx512::kAttentionBf16);
}

template <>
const CpuGemm<float>* fastest_cpu_gemm<float>() {
  if (best_isa() == Isa::kBaseline) return nullptr;
  return best_isa() == Isa::kAvx2 ? &avx2::kGemmFloat : &avx512::kGemmFloat;
}

template <>
const CpuGemm<Bf16>* fastest_cpu_gemm<Bf16>() {
  if (best_isa() != Isa::kAvx512Bf16) return nullptr;
  return multiplies_pairs_fast() ? &avx512bf16::kGemmBf16Dot : &avx512bf16::kGemmBf16ToF32;
}

bool cpu_multiplies_bf16() { return best_isa() >= Isa::kAvx512Bf16; }

const char* cpu_kernels_isa() {
  switch (best_isa()) {
    case Isa::kAmxBf16:
      return "amx_bf16";
    case Isa::kAvx512Bf16:
      return "avx512_bf16";
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
