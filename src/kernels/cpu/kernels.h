// The inner loops of the fused operators on a CPU: plain functions over rows, single-threaded, no
// torch.
//
// One source (kernels/cpu/kernels_impl.cpp) is compiled for the x86-64 baseline, AVX2 and AVX-512;
// cpu_kernels() gives the table for the best the processor has, chosen once. Elements are float or
// Bf16; arithmetic and sums are fp32. Every function has an ATen composition as its oracle in the
// operator's own file.
#pragma once

#include <cstdint>

namespace lmtrain {

// The bits of a bfloat16 (layout-compatible with c10::BFloat16, free of its header).
struct Bf16 {
  uint16_t bits;
};

struct AdamWConstants {
  float lr, beta2, eps, weight_decay;
  float one_minus_beta1, one_minus_beta2;  // rounded once, from fp64
  float bias_correction1;                  // 1 - beta1^t
  float sqrt_bias_correction2;             // sqrt(1 - beta2^t)
  float grad_scale;                        // the clipping coefficient
};

struct LionConstants {
  float lr, weight_decay;
  float one_minus_beta1, one_minus_beta2;
  float grad_scale;
};

struct AdEMAMixConstants {
  float lr, beta2, eps, weight_decay, alpha;
  float one_minus_beta1, one_minus_beta2, one_minus_beta3;
  float inverse_bias_correction1;  // 1 / (1 - beta1^t)
  float sqrt_bias_correction2;
  float grad_scale;
};

template <class T>
struct CpuKernels {
  // y = x * rstd * w per row of `dim`, rstd = 1/sqrt(mean(x^2) + eps) is kept for the backward.
  // With a `residual` (null: none), h = x + residual takes the place of x.
  void (*rms_norm_forward)(const T* x, const T* residual, const T* w, T* h, T* y, float* rstd,
                           int64_t rows, int64_t dim, float eps);
  // Writes dx, with dh (null: none) added; adds to dw[dim] (fp32).
  void (*rms_norm_backward)(const T* dy, const T* dh, const T* x, const T* w, const float* rstd,
                            T* dx, float* dw, int64_t rows, int64_t dim);
  // y = silu(gate) * up.
  void (*swiglu_forward)(const T* gate, const T* up, T* y, int64_t count);
  // Writes y again too.
  void (*swiglu_backward)(const T* dy, const T* gate, const T* up, T* d_gate, T* d_up, T* y,
                          int64_t count);
  // logsumexp(logits) - logits[target] of one row; with `grad_scale` not 0 the row becomes its
  // gradient and that of z_loss * logsumexp^2, (softmax * (1 + 2 z_loss logsumexp) - onehot) *
  // grad_scale. A negative target gives loss 0 and gradient 0. For a gradient in bf16 `scratch` has
  // room for `vocab` numbers.
  float (*cross_entropy)(T* logits, int64_t vocab, int64_t target, float grad_scale, float z_loss,
                         float* scratch);
  // AdamW (Loshchilov & Hutter, 1711.05101) as torch.optim.AdamW computes it; writes the working
  // weights too.
  void (*adamw)(float* master, float* exp_avg, float* exp_avg_sq, const float* grad, T* working,
                int64_t count, const AdamWConstants& constants);
  // Lion (Chen et al., 2302.06675); likewise.
  void (*lion)(float* master, float* exp_avg, const float* grad, T* working, int64_t count,
               const LionConstants& constants);
  // AdEMAMix (Pagliardini et al., 2409.03137); likewise.
  void (*ademamix)(float* master, float* exp_avg, float* exp_avg_slow, float* exp_avg_sq,
                   const float* grad, T* working, int64_t count,
                   const AdEMAMixConstants& constants);
  // sum (+)= grad, fp32.
  void (*accumulate)(const T* grad, float* sum, int64_t count, bool first);
  // The sum of x^2, in fp64.
  double (*sum_of_squares)(const T* x, int64_t count);
};

template <class T>
const CpuKernels<T>& cpu_kernels();
template <>
const CpuKernels<float>& cpu_kernels<float>();
template <>
const CpuKernels<Bf16>& cpu_kernels<Bf16>();

// Whether the processor has instructions for products in bf16 (avx512_bf16 or amx_bf16), and the
// system enables them.
bool cpu_multiplies_bf16();

// The instruction set of the processor: "avx512_bf16" (the tables of "avx512" and, for products in
// bf16, and attention where it is fast at pairs, of its own), "avx512", "avx2" or "baseline".
const char* cpu_kernels_isa();

}  // namespace lmtrain
