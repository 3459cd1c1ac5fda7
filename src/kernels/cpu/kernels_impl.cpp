// Compiled once an instruction set, with LMTRAIN_ISA naming it (see CMakeLists.txt). Only headers
// without inline functions of the standard library: the linker must not pick a copy with
// instructions the processor lacks.
#include "kernels/cpu/vectors.h"

namespace lmtrain::LMTRAIN_ISA {
namespace {

template <class T>
void rms_norm_forward(const T* x, const T* residual, const T* w, T* h, T* y, float* rstd,
                      int64_t rows, int64_t dim, float eps) {
  for (int64_t row = 0; row < rows; ++row, x += dim, y += dim) {
    const T* in = x;
    if (residual != nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < dim; ++i) store(h + i, load(x + i) + load(residual + i));
      in = h;
      h += dim;
      residual += dim;
    }
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < dim; ++i) sum += load(in + i) * load(in + i);
    const float scale = 1.0F / __builtin_sqrtf(sum / static_cast<float>(dim) + eps);
    rstd[row] = scale;
#pragma omp simd
    for (int64_t i = 0; i < dim; ++i) store(y + i, load(in + i) * scale * load(w + i));
  }
}

template <class T>
void rms_norm_backward(const T* dy, const T* dh, const T* x, const T* w, const float* rstd, T* dx,
                       float* dw, int64_t rows, int64_t dim) {
  for (int64_t row = 0; row < rows; ++row, dy += dim, x += dim, dx += dim) {
    const float scale = rstd[row];
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < dim; ++i) dot += load(dy + i) * load(w + i) * load(x + i);
    const float shift = dot * scale * scale * scale / static_cast<float>(dim);
    const auto finish = [&](auto other) {
#pragma omp simd
      for (int64_t i = 0; i < dim; ++i) {
        const float g = load(dy + i);
        const float v = load(x + i);
        dw[i] += g * v * scale;
        store(dx + i, g * load(w + i) * scale - v * shift + other(i));
      }
    };
    if (dh == nullptr) {
      finish([](int64_t) { return 0.0F; });
    } else {
      finish([dh](int64_t i) { return load(dh + i); });
      dh += dim;
    }
  }
}

inline float sigmoid(float x) { return 1.0F / (1.0F + exp_approx(-x)); }

template <class T>
void swiglu_forward(const T* gate, const T* up, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float x = load(gate + i);
    store(y + i, x * sigmoid(x) * load(up + i));
  }
}

template <class T>
void swiglu_backward(const T* dy, const T* gate, const T* up, T* d_gate, T* d_up, T* y,
                     int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float x = load(gate + i);
    const float u = load(up + i);
    const float g = load(dy + i);
    const float s = sigmoid(x);
    store(d_gate + i, g * u * s * (1.0F + x * (1.0F - s)));
    store(d_up + i, g * x * s);
    store(y + i, x * s * u);
  }
}

// cross_entropy's passes over the whole rounds of vectors in a row. A processor with AVX2 looks too
// few operations ahead to take the exponentials of a plain loop side by side. Other processors and
// types have no rounds.

// The result of the first `count` numbers.
struct OfRounds {
  float value;
  int64_t count;
};

template <class T>
OfRounds largest_of_rounds(const T* /*x*/, int64_t /*count*/, float largest) {
  return {largest, 0};
}
template <class T>
OfRounds exp_of_rounds(T* /*x*/, int64_t /*count*/, float /*largest*/) {
  return {0, 0};
}

#if defined(__AVX2__) && !defined(__AVX512F__)
// Replaces each x[i] by exp_approx(x[i]), each operation for all of them before the next one.
template <int kCount>
[[gnu::always_inline]] inline void exp_approx_together(Vector (&x)[kCount]) {
  Vector shifted[kCount], r[kCount], p[kCount];
  const auto each = [&](auto f) __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) f(i);
  };
  each([&](int i) { x[i] = Exp::kLeast > x[i] ? Vector{} + Exp::kLeast : x[i]; });
  each([&](int i) { x[i] = Exp::kMost < x[i] ? Vector{} + Exp::kMost : x[i]; });
  each([&](int i) { shifted[i] = x[i] * Exp::kLog2e + Exp::kRound; });
  each([&](int i) { r[i] = shifted[i] - Exp::kRound; });
  each([&](int i) { x[i] = x[i] - r[i] * Exp::kLn2High; });
  each([&](int i) { r[i] = x[i] - r[i] * Exp::kLn2Low; });
  each([&](int i) { p[i] = Exp::kP5 * r[i] + Exp::kP4; });
  each([&](int i) { p[i] = p[i] * r[i] + Exp::kP3; });
  each([&](int i) { p[i] = p[i] * r[i] + Exp::kP2; });
  each([&](int i) { p[i] = p[i] * r[i] + Exp::kP1; });
  each([&](int i) { p[i] = p[i] * r[i] + Exp::kP0; });
  each([&](int i) { p[i] = p[i] * r[i] * r[i] + r[i] + 1.0F; });
  each([&](int i) {
    const Bits power = __builtin_bit_cast(Bits, shifted[i]) << 23;
    x[i] = p[i] * __builtin_bit_cast(Vector, power);
  });
}

// Returns the largest number, and at least `largest`.
inline OfRounds largest_of_rounds(const float* x, int64_t count, float largest) {
  constexpr int kTogether = 8;
  constexpr int64_t kRound = kTogether * kLanes;
  Vector most[kTogether];
  for (Vector& lanes : most) lanes = Vector{} + largest;
  int64_t i = 0;
  for (; i + kRound <= count; i += kRound) {
#pragma GCC unroll 8
    for (int j = 0; j < kTogether; ++j) {
      Vector numbers;
      __builtin_memcpy(&numbers, x + i + j * kLanes, sizeof numbers);
      most[j] = larger(most[j], numbers);
    }
  }
  for (const Vector& lanes : most) most[0] = larger(most[0], lanes);
  return {largest_lane(most[0]), i};
}

// Replaces each number by its exp_approx(x[i] - largest); returns their sum.
inline OfRounds exp_of_rounds(float* x, int64_t count, float largest) {
  constexpr int kTogether = 4;
  constexpr int64_t kRound = kTogether * kLanes;
  Vector sums[kTogether] = {};
  int64_t i = 0;
  for (; i + kRound <= count; i += kRound) {
    Vector v[kTogether];
#pragma GCC unroll 4
    for (int j = 0; j < kTogether; ++j) {
      __builtin_memcpy(&v[j], x + i + j * kLanes, sizeof v[j]);
      v[j] -= largest;
    }
    exp_approx_together(v);
#pragma GCC unroll 4
    for (int j = 0; j < kTogether; ++j) {
      __builtin_memcpy(x + i + j * kLanes, &v[j], sizeof v[j]);
      sums[j] += v[j];
    }
  }
  return {sum_of_lanes((sums[0] + sums[1]) + (sums[2] + sums[3])), i};
}
#endif

template <class T>
float cross_entropy(T* logits, int64_t vocab, int64_t target, float grad_scale, float z_loss,
                    float* scratch) {
  const bool wants_gradient = grad_scale != 0;
  if (target < 0) {
    if (wants_gradient) {
      for (int64_t i = 0; i < vocab; ++i) store(logits + i, 0.0F);
    }
    return 0;
  }
  const OfRounds looked_at = largest_of_rounds(logits, vocab, load(logits));
  float largest = looked_at.value;
#pragma omp simd reduction(max : largest)
  for (int64_t i = looked_at.count; i < vocab; ++i) {
    const float value = load(logits + i);
    largest = value > largest ? value : largest;
  }
  const float at_target = load(logits + target);
  float sum = 0;
  if (!wants_gradient) {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < vocab; ++i) sum += exp_approx(load(logits + i) - largest);
    return __builtin_logf(sum) + largest - at_target;
  }
  float* exps = scratch;
  if constexpr (sizeof(T) == sizeof(float)) exps = logits;
  const OfRounds replaced = exp_of_rounds(logits, vocab, largest);
  sum = replaced.value;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = replaced.count; i < vocab; ++i) {
    const float value = exp_approx(load(logits + i) - largest);
    exps[i] = value;
    sum += value;
  }
  const float log_sum = __builtin_logf(sum) + largest;
  const float z_factor = 1.0F + 2.0F * z_loss * log_sum;
  const float scale = grad_scale / sum * z_factor;
#pragma omp simd
  for (int64_t i = 0; i < vocab; ++i) store(logits + i, exps[i] * scale);
  store(logits + target, (exp_approx(at_target - largest) / sum * z_factor - 1.0F) * grad_scale);
  return log_sum - at_target;
}

// Calls update(decayed) with the weight decay of an update: decayed(w, u) is what is left of weight
// w before a step that has the sign of -u. Each of the two loops is compiled by itself.
template <class F>
inline void with_decay(float keep, bool cautiously, const F& update) {
  if (cautiously) {
    update([keep](float w, float u) { return u * w > 0 ? w * keep : w; });
  } else {
    update([keep](float w, float) { return w * keep; });
  }
}

template <class T>
void adamw(float* master, float* exp_avg, float* exp_avg_sq, const float* grad, T* working,
           int64_t count, const AdamWConstants& c) {
  const float step_size = c.lr / c.bias_correction1;
  const float keep = 1.0F - c.lr * c.weight_decay;
  with_decay(keep, c.cautious_decay, [&](auto decayed) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float g = grad[i] * c.grad_scale;
      const float m = exp_avg[i] + (g - exp_avg[i]) * c.one_minus_beta1;
      const float v = exp_avg_sq[i] * c.beta2 + g * g * c.one_minus_beta2;
      exp_avg[i] = m;
      exp_avg_sq[i] = v;
      const float updated = decayed(master[i], m) -
                            step_size * m / (__builtin_sqrtf(v) / c.sqrt_bias_correction2 + c.eps);
      master[i] = updated;
      store(working + i, updated);
    }
  });
}

template <class T>
void lion(float* master, float* exp_avg, const float* grad, T* working, int64_t count,
          const LionConstants& c) {
  const float keep = 1.0F - c.lr * c.weight_decay;
  with_decay(keep, c.cautious_decay, [&](auto decayed) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float g = grad[i] * c.grad_scale;
      const float m = exp_avg[i];
      const float u = m + (g - m) * c.one_minus_beta1;
      const float magnitude = u < 0 ? -u : u;
      // 0 for 0, and NaN for NaN.
      const float sign = magnitude > 0 ? (u < 0 ? -1.0F : 1.0F) : u;
      exp_avg[i] = m + (g - m) * c.one_minus_beta2;
      const float updated = decayed(master[i], sign) - c.lr * sign;
      master[i] = updated;
      store(working + i, updated);
    }
  });
}

template <class T>
void ademamix(float* master, float* exp_avg, float* exp_avg_slow, float* exp_avg_sq,
              const float* grad, T* working, int64_t count, const AdEMAMixConstants& c) {
  const float keep = 1.0F - c.lr * c.weight_decay;
  with_decay(keep, c.cautious_decay, [&](auto decayed) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float g = grad[i] * c.grad_scale;
      const float fast = exp_avg[i] + (g - exp_avg[i]) * c.one_minus_beta1;
      const float slow = exp_avg_slow[i] + (g - exp_avg_slow[i]) * c.one_minus_beta3;
      const float v = exp_avg_sq[i] * c.beta2 + g * g * c.one_minus_beta2;
      exp_avg[i] = fast;
      exp_avg_slow[i] = slow;
      exp_avg_sq[i] = v;
      const float mix = fast * c.inverse_bias_correction1 + c.alpha * slow;
      const float updated = decayed(master[i], mix) -
                            c.lr * mix / (__builtin_sqrtf(v) / c.sqrt_bias_correction2 + c.eps);
      master[i] = updated;
      store(working + i, updated);
    }
  });
}

// at::lerp, by the same two formulas.
inline float lerp(float from, float to, float weight, float one_minus_weight) {
  return weight < 0.5F ? from + weight * (to - from) : to - (to - from) * one_minus_weight;
}

template <class T>
void muon_momentum(float* momentum, const float* grad, T* direction, int64_t count,
                   const MuonMomentumConstants& c) {
  const float mu = c.momentum, rest = c.one_minus_momentum;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float g = grad[i] * c.grad_scale;
    const float m = lerp(momentum[i], g, rest, mu);
    momentum[i] = m;
    store(direction + i, c.nesterov ? lerp(g, m, mu, rest) : m);
  }
}

template <class T>
void muon_step(float* master, const T* orthogonal, const float* factors, int64_t rows,
               int64_t columns, const MuonStepConstants& c) {
  with_decay(1.0F - c.decay, c.cautious_decay, [&](auto decayed) {
    for (int64_t row = 0; row < rows; ++row, master += columns, orthogonal += columns) {
      const float factor = factors == nullptr ? 1.0F : factors[row];
#pragma omp simd
      for (int64_t i = 0; i < columns; ++i) {
        const float o = load(orthogonal + i) * factor;
        master[i] = decayed(master[i], o) - c.step * o;
      }
    }
  });
}

template <class T>
void accumulate(const T* grad, float* sum, int64_t count, bool first) {
  if (first) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) sum[i] = load(grad + i);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) sum[i] += load(grad + i);
  }
}

template <class T>
double sum_of_squares(const T* x, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i)
    sum += static_cast<double>(load(x + i)) * static_cast<double>(load(x + i));
  return sum;
}

template <class T>
constexpr CpuKernels<T> table() {
  return {rms_norm_forward<T>,
          rms_norm_backward<T>,
          swiglu_forward<T>,
          swiglu_backward<T>,
          cross_entropy<T>,
          adamw<T>,
          lion<T>,
          ademamix<T>,
          muon_momentum<T>,
          muon_step<T>,
          accumulate<T>,
          sum_of_squares<T>};
}

}  // namespace

extern const CpuKernels<float> kFloat;
extern const CpuKernels<Bf16> kBf16;
const CpuKernels<float> kFloat = table<float>();
const CpuKernels<Bf16> kBf16 = table<Bf16>();

}  // namespace lmtrain::LMTRAIN_ISA
