// Cross-entropy on a GPU: a block a row. Largest logit and sum of exponentials come from one pass;
// a second, over what the caches still hold, overwrites the row by its gradient.
#include "kernels/cuda/common.cuh"

namespace lmtrain::cuda {
namespace {

constexpr int kBlock = 1024;
constexpr float kLn2 = 0.693147182F, kLn2Rest = -1.90465421e-9F;  // ln(2) is their sum

// The sum of 2^(x log2(e) - shift) over some logits; `shift` is about the largest x log2(e). -inf
// adds 0; NaN makes the sum NaN.
struct SoftmaxSum {
  float shift = -INFINITY;
  float sum = 0;

  // The number to subtract. With nothing but -inf so far it is 0, as -inf - -inf is NaN.
  __device__ static float finite(float shift) { return shift == -INFINITY ? 0 : shift; }
  // Returns e^x over e^(the logit of the shift).
  __device__ static float term(float x, float shift) {
    return power_of_2(fmaf(x, kLog2OfE, -shift));
  }

  template <int W>
  __device__ void add(const Floats<W>& x) {
    float most = x.lane[0];
#pragma unroll
    for (int j = 1; j < W; ++j) most = fmaxf(most, x.lane[j]);
    const float next = fmaxf(shift, most * kLog2OfE);
    const float by = finite(next);
    sum *= power_of_2(shift - by);
#pragma unroll
    for (int j = 0; j < W; ++j) sum += term(x.lane[j], by);
    shift = next;
  }

  __device__ void add(const SoftmaxSum& other) {
    const float next = fmaxf(shift, other.shift);
    const float by = finite(next);
    sum = sum * power_of_2(shift - by) + other.sum * power_of_2(other.shift - by);
    shift = next;
  }

  // Returns the logarithm of the sum of e^x.
  __device__ float log() const { return fmaf(shift, kLn2, fmaf(shift, kLn2Rest, logf(sum))); }
};

// Returns the sum over the block, to every thread. Only lane 0 of a warp needs over_warp's result.
__device__ SoftmaxSum block_softmax_sum(SoftmaxSum x) {
  __shared__ float shift[kWarp];
  __shared__ float sum[kWarp];
  const auto over_warp = [](SoftmaxSum y) {
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      SoftmaxSum other;
      other.shift = __shfl_down_sync(0xFFFFFFFFU, y.shift, distance);
      other.sum = __shfl_down_sync(0xFFFFFFFFU, y.sum, distance);
      y.add(other);
    }
    return y;
  };
  const auto put = [&](unsigned slot, const SoftmaxSum& y) {
    shift[slot] = y.shift;
    sum[slot] = y.sum;
  };
  x = over_warp(x);
  if (threadIdx.x % kWarp == 0) put(threadIdx.x / kWarp, x);
  __syncthreads();
  if (threadIdx.x < kWarp) {
    const bool has_warp = threadIdx.x < blockDim.x / kWarp;
    x = over_warp(has_warp ? SoftmaxSum{shift[threadIdx.x], sum[threadIdx.x]} : SoftmaxSum{});
    if (threadIdx.x == 0) put(0, x);
  }
  __syncthreads();
  return {shift[0], sum[0]};
}

enum class From { kFirst, kLast };

// Calls body(Width<W>, first element) for the elements of a row. A row of a vocabulary of any size
// begins anywhere: single elements up to the first whole pack, then packs, from the first or from
// the last one on, then single elements.
template <int kWidth, From kFrom, class T, class Body>
__device__ void for_row(const T* row, int64_t count, const Body& body) {
  constexpr int64_t kBytes = kWidth * sizeof(T);
  const int64_t beyond = static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) % kBytes);
  const int64_t head = min(count, (kBytes - beyond) % kBytes / int64_t{sizeof(T)});
  for (int64_t i = threadIdx.x; i < head; i += blockDim.x) body(Width<1>{}, i);
  const int64_t last_pack = (count - head) / kWidth * kWidth - kWidth;
  for_each_pack<kWidth>(
      count - head, threadIdx.x, blockDim.x, [&]<int W>(Width<W> width, int64_t i) {
        body(width, head + (W == kWidth && kFrom == From::kLast ? last_pack - i : i));
      });
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    kernel(T* logits, const int64_t* targets, float* losses, int64_t vocab,
           const double* grad_scale, float z_loss) {
  constexpr int kWidth = kPack<T>;
  const int64_t i_row = row_of_block();
  T* row = logits + i_row * vocab;
  const int64_t target = targets[i_row];
  if (target < 0 || target >= vocab) {
    const float value = target < 0 ? 0 : NAN;
    if (threadIdx.x == 0) losses[i_row] = value;
    if (grad_scale == nullptr) return;
    for_row<kWidth, From::kFirst>(row, vocab, [&]<int W>(Width<W>, int64_t i) {
      Floats<W> out;
#pragma unroll
      for (int j = 0; j < W; ++j) out.lane[j] = value;
      store<W>(row + i, out);
    });
    return;
  }
  const float at_target = to_float(row[target]);  // before anyone overwrites it
  SoftmaxSum all;
  for_row<kWidth, From::kFirst>(row, vocab,
                                [&]<int W>(Width<W>, int64_t i) { all.add(load<W>(row + i)); });
  all = block_softmax_sum(all);
  const float log_sum = all.log();
  if (threadIdx.x == 0) losses[i_row] = log_sum - at_target;
  if (grad_scale == nullptr) return;
  const float z_factor = 1.0F + 2.0F * z_loss * log_sum;
  const auto at_loss = static_cast<float>(*grad_scale);
  const float scale = at_loss / all.sum * z_factor;
  const float shift = SoftmaxSum::finite(all.shift);
  const float gradient_at_target =
      (SoftmaxSum::term(at_target, shift) / all.sum * z_factor - 1.0F) * at_loss;
  // The first pass ended with the last logits: these are the ones that the caches hold.
  for_row<kWidth, From::kLast>(row, vocab, [&]<int W>(Width<W>, int64_t i) {
    auto x = load<W>(row + i);
#pragma unroll
    for (int j = 0; j < W; ++j) x.lane[j] = SoftmaxSum::term(x.lane[j], shift) * scale;
    if (i <= target && target < i + W) {
#pragma unroll
      for (int j = 0; j < W; ++j) x.lane[j] = i + j == target ? gradient_at_target : x.lane[j];
    }
    store<W>(row + i, x);
  });
}

template <class T, int kWidth>
__global__ void scale_kernel(T* x, int64_t count, const float* factor) {
  const float by = *factor;
  if (by == 1.0F) return;
  for_each_pack_of_grid<kWidth>(count, [&]<int W>(Width<W>, int64_t i) {
    auto value = load<W>(x + i);
#pragma unroll
    for (int j = 0; j < W; ++j) value.lane[j] *= by;
    store<W>(x + i, value);
  });
}

}  // namespace

void cross_entropy(const Call& call, void* logits, const int64_t* targets, float* losses,
                   int64_t rows, int64_t vocab, const double* grad_scale, float z_loss) {
  if (rows == 0) return;
  with_element(call.type, [&]<class T>(T) {
    kernel<T><<<num_blocks(rows, 1), num_threads(vocab / kPack<T>, kBlock), 0, stream_of(call)>>>(
        static_cast<T*>(logits), targets, losses, vocab, grad_scale, z_loss);
  });
  check_launch("cross_entropy");
}

void scale_by(const Call& call, void* x, int64_t count, const float* factor) {
  constexpr int kThreads = 256;
  if (count == 0) return;
  with_element(call.type, [&]<class T>(T) {
    with_width<kPack<T>>(aligned_to(16, x), [&]<int W>(Width<W>) {
      // Few blocks, since most often they have nothing to do.
      scale_kernel<T, W>
          <<<std::min(num_blocks(count, kThreads * W), 1024U), kThreads, 0, stream_of(call)>>>(
              static_cast<T*>(x), count, factor);
    });
  });
  check_launch("scale_by");
}

}  // namespace lmtrain::cuda
