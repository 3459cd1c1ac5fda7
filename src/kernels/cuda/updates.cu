// AdamW, Lion and AdEMAMix on a GPU: one pass over masters, moments and gradient, which writes the
// working weights too. The arithmetic is that of kernels/cpu/kernels_impl.cpp, term by term.
#include "kernels/cuda/common.cuh"

namespace lmtrain::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int kElements = 4;  // of a pack: 16 bytes of fp32

__device__ float towards(float from, float to, float by) { return from + (to - from) * by; }

// Returns the factor of weight w before a step that has the sign of -u.
__device__ float kept(float keep, bool cautiously, float w, float u) {
  return !cautiously || u * w > 0 ? keep : 1.0F;
}

template <class T, int kWidth>
__global__ void adamw_kernel(float* master, float* exp_avg, float* exp_avg_sq, const float* grad,
                             T* working, int64_t count, const AdamWConstants* constants) {
  const AdamWConstants c = *constants;
  const float step_size = c.lr / c.bias_correction1;
  const float keep = 1.0F - c.lr * c.weight_decay;
  for_each_pack_of_grid<kWidth>(count, [&]<int W>(Width<W>, int64_t i) {
    auto w = load<W>(master + i);
    auto m = load<W>(exp_avg + i);
    auto v = load<W>(exp_avg_sq + i);
    const auto gradient = load<W>(grad + i);
#pragma unroll
    for (int j = 0; j < W; ++j) {
      const float g = gradient.lane[j] * c.grad_scale;
      m.lane[j] = towards(m.lane[j], g, c.one_minus_beta1);
      v.lane[j] = v.lane[j] * c.beta2 + g * g * c.one_minus_beta2;
      w.lane[j] = w.lane[j] * kept(keep, c.cautious_decay, w.lane[j], m.lane[j]) -
                  step_size * m.lane[j] / (sqrtf(v.lane[j]) / c.sqrt_bias_correction2 + c.eps);
    }
    store<W>(exp_avg + i, m);
    store<W>(exp_avg_sq + i, v);
    store<W>(master + i, w);
    store<W>(working + i, w);
  });
}

template <class T, int kWidth>
__global__ void lion_kernel(float* master, float* exp_avg, const float* grad, T* working,
                            int64_t count, const LionConstants* constants) {
  const LionConstants c = *constants;
  const float keep = 1.0F - c.lr * c.weight_decay;
  for_each_pack_of_grid<kWidth>(count, [&]<int W>(Width<W>, int64_t i) {
    auto w = load<W>(master + i);
    auto m = load<W>(exp_avg + i);
    const auto gradient = load<W>(grad + i);
#pragma unroll
    for (int j = 0; j < W; ++j) {
      const float g = gradient.lane[j] * c.grad_scale;
      const float u = towards(m.lane[j], g, c.one_minus_beta1);
      // 0 for 0, and NaN for NaN.
      const float sign = u > 0 ? 1.0F : u < 0 ? -1.0F : u;
      m.lane[j] = towards(m.lane[j], g, c.one_minus_beta2);
      w.lane[j] = w.lane[j] * kept(keep, c.cautious_decay, w.lane[j], sign) - c.lr * sign;
    }
    store<W>(exp_avg + i, m);
    store<W>(master + i, w);
    store<W>(working + i, w);
  });
}

template <class T, int kWidth>
__global__ void ademamix_kernel(float* master, float* exp_avg, float* exp_avg_slow,
                                float* exp_avg_sq, const float* grad, T* working, int64_t count,
                                const AdEMAMixConstants* constants) {
  const AdEMAMixConstants c = *constants;
  const float keep = 1.0F - c.lr * c.weight_decay;
  for_each_pack_of_grid<kWidth>(count, [&]<int W>(Width<W>, int64_t i) {
    auto w = load<W>(master + i);
    auto fast = load<W>(exp_avg + i);
    auto slow = load<W>(exp_avg_slow + i);
    auto v = load<W>(exp_avg_sq + i);
    const auto gradient = load<W>(grad + i);
#pragma unroll
    for (int j = 0; j < W; ++j) {
      const float g = gradient.lane[j] * c.grad_scale;
      fast.lane[j] = towards(fast.lane[j], g, c.one_minus_beta1);
      slow.lane[j] = towards(slow.lane[j], g, c.one_minus_beta3);
      v.lane[j] = v.lane[j] * c.beta2 + g * g * c.one_minus_beta2;
      const float mix = fast.lane[j] * c.inverse_bias_correction1 + c.alpha * slow.lane[j];
      w.lane[j] = w.lane[j] * kept(keep, c.cautious_decay, w.lane[j], mix) -
                  c.lr * mix / (sqrtf(v.lane[j]) / c.sqrt_bias_correction2 + c.eps);
    }
    store<W>(exp_avg + i, fast);
    store<W>(exp_avg_slow + i, slow);
    store<W>(exp_avg_sq + i, v);
    store<W>(master + i, w);
    store<W>(working + i, w);
  });
}

// Calls f<T, W>(blocks) with the element type of the working weights and the width of a pack.
// `all_fp32`: whether every fp32 buffer may be read in packs.
template <class F>
void with_types(const Call& call, const void* working, int64_t count, bool all_fp32, const F& f) {
  if (count == 0) return;
  with_element(call.type, [&]<class T>(T) {
    const bool aligned = all_fp32 && aligned_to(kElements * sizeof(T), working);
    with_width<kElements>(
        aligned, [&]<int W>(Width<W> width) { f(T{}, width, num_blocks(count, kBlock * W)); });
  });
}

}  // namespace

void adamw(const Call& call, float* master, float* exp_avg, float* exp_avg_sq, const float* grad,
           void* working, int64_t count, const AdamWConstants* constants) {
  const bool all_fp32 = all_aligned({master, exp_avg, exp_avg_sq, grad});
  with_types(call, working, count, all_fp32, [&]<class T, int W>(T, Width<W>, unsigned blocks) {
    adamw_kernel<T, W><<<blocks, kBlock, 0, stream_of(call)>>>(
        master, exp_avg, exp_avg_sq, grad, static_cast<T*>(working), count, constants);
  });
  check_launch("adamw");
}

void lion(const Call& call, float* master, float* exp_avg, const float* grad, void* working,
          int64_t count, const LionConstants* constants) {
  const bool all_fp32 = all_aligned({master, exp_avg, grad});
  with_types(call, working, count, all_fp32, [&]<class T, int W>(T, Width<W>, unsigned blocks) {
    lion_kernel<T, W><<<blocks, kBlock, 0, stream_of(call)>>>(
        master, exp_avg, grad, static_cast<T*>(working), count, constants);
  });
  check_launch("lion");
}

void ademamix(const Call& call, float* master, float* exp_avg, float* exp_avg_slow,
              float* exp_avg_sq, const float* grad, void* working, int64_t count,
              const AdEMAMixConstants* constants) {
  const bool all_fp32 = all_aligned({master, exp_avg, exp_avg_slow, exp_avg_sq, grad});
  with_types(call, working, count, all_fp32, [&]<class T, int W>(T, Width<W>, unsigned blocks) {
    ademamix_kernel<T, W>
        <<<blocks, kBlock, 0, stream_of(call)>>>(master, exp_avg, exp_avg_slow, exp_avg_sq, grad,
                                                 static_cast<T*>(working), count, constants);
  });
  check_launch("ademamix");
}

}  // namespace lmtrain::cuda
