// The inner loops of the fused operators and of the optimizers on a CPU: plain functions over rows,
// single-threaded, no torch.
//
// One source (kernels/cpu/kernels_impl.cpp) is compiled for the x86-64 baseline, AVX2 and AVX-512.
// Elements are float or Bf16; arithmetic and sums are fp32. Rows are contiguous. The oracle of
// every function is an ATen composition, beside its operator.
#pragma once

#include <cstdint>

namespace lmtrain {

// Bf16 holds the bits of a bfloat16, with the layout of c10::BFloat16.
struct Bf16 {
  uint16_t bits;
};

// With cautious_decay a weight decays only where its step goes towards zero (Chen et al. 2025,
// Cautious Weight Decay, 2510.12402).
struct AdamWConstants {
  float lr, beta2, eps, weight_decay;
  float one_minus_beta1, one_minus_beta2;  // rounded once, from fp64
  float bias_correction1;                  // 1 - beta1^t, t: the number of the update, from 1
  float sqrt_bias_correction2;             // sqrt(1 - beta2^t)
  float grad_scale;                        // the clipping coefficient
  bool cautious_decay;
};

struct LionConstants {
  float lr, weight_decay;
  float one_minus_beta1, one_minus_beta2;
  float grad_scale;
  bool cautious_decay;
};

struct AdEMAMixConstants {
  float lr, beta2, eps, weight_decay, alpha;
  float one_minus_beta1, one_minus_beta2, one_minus_beta3;
  float inverse_bias_correction1;  // 1 / (1 - beta1^t)
  float sqrt_bias_correction2;
  float grad_scale;
  bool cautious_decay;
};

struct MuonMomentumConstants {
  float momentum, one_minus_momentum;  // the second rounded once, from fp64
  float grad_scale;
  bool nesterov;
};

struct MuonStepConstants {
  float step;   // lr s
  float decay;  // lr * weight_decay
  bool cautious_decay;
};

template <class T>
struct CpuKernels {
  // Writes y = x * rstd * w per row of `dim`, and rstd[rows] = 1/sqrt(mean(x^2) + eps) for the
  // backward. With a `residual` (null: none), writes h = x + residual, rounded, and uses h in place
  // of x. Without one, h is not used and may be null.
  void (*rms_norm_forward)(const T* x, const T* residual, const T* w, T* h, T* y, float* rstd,
                           int64_t rows, int64_t dim, float eps);
  // Writes dx, the gradient of y through the norm, plus dh (null: none), and adds to dw[dim]
  // (fp32). `x` is the forward's x, or its h if there was a residual.
  void (*rms_norm_backward)(const T* dy, const T* dh, const T* x, const T* w, const float* rstd,
                            T* dx, float* dw, int64_t rows, int64_t dim);
  // Writes y = silu(gate) * up for `count` elements.
  void (*swiglu_forward)(const T* gate, const T* up, T* y, int64_t count);
  // Writes d_gate and d_up from dy, and y again; none may be null.
  void (*swiglu_backward)(const T* dy, const T* gate, const T* up, T* d_gate, T* d_up, T* y,
                          int64_t count);
  // Returns logsumexp(logits) - logits[target] of one row; `target` must be below `vocab`. Unless
  // `grad_scale` is 0, overwrites the row by the gradient of this and of z_loss * logsumexp^2:
  // (softmax * (1 + 2 z_loss logsumexp) - onehot) * grad_scale. A negative target gives loss 0 and
  // gradient 0. For a gradient in bf16 `scratch` must hold `vocab` floats; else it may be null.
  float (*cross_entropy)(T* logits, int64_t vocab, int64_t target, float grad_scale, float z_loss,
                         float* scratch);
  // Updates `count` weights, `master`, and their moments by AdamW (Loshchilov & Hutter, 1711.05101)
  // as torch.optim.AdamW computes it. Writes the weights, rounded to T, to `working` too; for float
  // that may be `master` itself.
  void (*adamw)(float* master, float* exp_avg, float* exp_avg_sq, const float* grad, T* working,
                int64_t count, const AdamWConstants& constants);
  // Does the same by Lion (Chen et al., 2302.06675).
  void (*lion)(float* master, float* exp_avg, const float* grad, T* working, int64_t count,
               const LionConstants& constants);
  // Does the same by AdEMAMix (Pagliardini et al., 2409.03137).
  void (*ademamix)(float* master, float* exp_avg, float* exp_avg_slow, float* exp_avg_sq,
                   const float* grad, T* working, int64_t count,
                   const AdEMAMixConstants& constants);
  // Updates `count` numbers of Muon's momentum, and writes the update's direction, before it is
  // made orthogonal (optim/muon.h).
  void (*muon_momentum)(float* momentum, const float* grad, T* direction, int64_t count,
                        const MuonMomentumConstants& constants);
  // Updates master[rows][columns]: master *= 1 - decay, then master -= step * factors[row] *
  // orthogonal (null factors: all 1). Both matrices are contiguous. Does not write working weights.
  void (*muon_step)(float* master, const T* orthogonal, const float* factors, int64_t rows,
                    int64_t columns, const MuonStepConstants& constants);
  // Adds `grad` to `sum`, or overwrites `sum` by it if `first`.
  void (*accumulate)(const T* grad, float* sum, int64_t count, bool first);
  // Returns the sum of x^2, summed in fp64.
  double (*sum_of_squares)(const T* x, int64_t count);
};

// Returns the kernels for the best instruction set, chosen once: the processor has it, and the
// environment variable ATEN_CPU_CAPABILITY allows it ("avx2" or "default", which is the baseline;
// another value, or none, allows all).
template <class T>
const CpuKernels<T>& cpu_kernels();
template <>
const CpuKernels<float>& cpu_kernels<float>();
template <>
const CpuKernels<Bf16>& cpu_kernels<Bf16>();

// Returns whether the processor has instructions for bf16 (avx512_bf16), and ATEN_CPU_CAPABILITY
// allows them.
bool cpu_multiplies_bf16();

// Returns the instruction set of these kernels: "amx_bf16", "avx512_bf16", "avx512", "avx2" or
// "baseline". avx512_bf16 has the kernels of avx512, but its own products in bf16. If the processor
// is fast at pairs (units.h), it has its own attention in bf16 too. amx_bf16 has the kernels of
// avx512, but its own attention in bf16; its products in bf16 are oneDNN's.
const char* cpu_kernels_isa();

}  // namespace lmtrain
