// Declares the tables of kernels of every instruction set. The sources that are compiled once per
// instruction set define them. Call only tables that the processor can run: cpu_kernels(),
// cpu_attention() and fastest_cpu_gemm() choose, and tests call each such table.
#pragma once

#include "kernels/cpu/attention.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/kernels.h"

namespace lmtrain {

#define LMTRAIN_DECLARE_TABLES(isa)                 \
  namespace isa {                                   \
  extern const CpuKernels<float> kFloat;            \
  extern const CpuKernels<Bf16> kBf16;              \
  extern const CpuAttention<float> kAttentionFloat; \
  extern const CpuAttention<Bf16> kAttentionBf16;   \
  extern const CpuGemm<float> kGemmFloat;           \
  }
LMTRAIN_DECLARE_TABLES(baseline)
LMTRAIN_DECLARE_TABLES(avx2)
LMTRAIN_DECLARE_TABLES(avx512)
#undef LMTRAIN_DECLARE_TABLES
// avx512_bf16 differs from avx512 in attention and products in bf16 alone.
namespace avx512bf16 {
extern const CpuGemm<Bf16> kGemmBf16Dot, kGemmBf16ToF32;
extern const CpuAttention<Bf16> kAttentionBf16;
}  // namespace avx512bf16
// amx has attention in bf16 alone. Its products in bf16 are oneDNN's.
namespace amx {
extern const CpuAttention<Bf16> kAttentionBf16;
}  // namespace amx

}  // namespace lmtrain
