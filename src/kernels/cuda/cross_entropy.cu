// Cross-entropy on a GPU: a block a row. Largest logit and sum of exponentials come from one pass;
// a second, over what the cache still holds, overwrites the row by its gradient.
#include "kernels/cuda/common.cuh"

namespace lmtrain::cuda {
namespace {

constexpr int kBlock = 1024;

// The sum of exp(x - largest) over some logits. -inf adds 0; NaN makes the sum NaN.
struct SoftmaxSum {
  float largest = -INFINITY;
  float sum = 0;

  // The number to subtract. With nothing but -inf so far it is 0, as -inf - -inf is NaN.
  __device__ static float shift_of(float largest) { return largest == -INFINITY ? 0 : largest; }

  template <int W>
  __device__ void add(const Floats<W>& x) {
    float most = largest;
#pragma unroll
    for (int j = 0; j < W; ++j) most = fmaxf(most, x.lane[j]);
    const float shift = shift_of(most);
    sum *= __expf(largest - shift);
#pragma unroll
    for (int j = 0; j < W; ++j) sum += __expf(x.lane[j] - shift);
    largest = most;
  }

  __device__ void add(const SoftmaxSum& other) {
    const float most = fmaxf(largest, other.largest);
    const float shift = shift_of(most);
    sum = sum * __expf(largest - shift) + other.sum * __expf(other.largest - shift);
    largest = most;
  }
};

// Returns the sum over the block, to every thread. Only lane 0 of a warp needs over_warp's result.
__device__ SoftmaxSum block_softmax_sum(SoftmaxSum x) {
  __shared__ float largest[kWarp];
  __shared__ float sum[kWarp];
  const auto over_warp = [](SoftmaxSum y) {
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      SoftmaxSum other;
      other.largest = __shfl_down_sync(0xFFFFFFFFU, y.largest, distance);
      other.sum = __shfl_down_sync(0xFFFFFFFFU, y.sum, distance);
      y.add(other);
    }
    return y;
  };
  const auto put = [&](unsigned slot, const SoftmaxSum& y) {
    largest[slot] = y.largest;
    sum[slot] = y.sum;
  };
  x = over_warp(x);
  if (threadIdx.x % kWarp == 0) put(threadIdx.x / kWarp, x);
  __syncthreads();
  if (threadIdx.x < kWarp) {
    const bool has_warp = threadIdx.x < blockDim.x / kWarp;
    x = over_warp(has_warp ? SoftmaxSum{largest[threadIdx.x], sum[threadIdx.x]} : SoftmaxSum{});
    if (threadIdx.x == 0) put(0, x);
  }
  __syncthreads();
  return {largest[0], sum[0]};
}

// A row of a vocabulary of any size begins anywhere: single elements up to the first whole pack,
// then packs, then single elements.
template <int kWidth, class T, class Body>
__device__ void for_row(const T* row, int64_t count, const Body& body) {
  constexpr int64_t kBytes = kWidth * sizeof(T);
  const int64_t beyond = static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) % kBytes);
  const int64_t head = min(count, (kBytes - beyond) % kBytes / int64_t{sizeof(T)});
  for (int64_t i = threadIdx.x; i < head; i += blockDim.x) body(Width<1>{}, i);
  for_each_pack<kWidth>(count - head, threadIdx.x, blockDim.x,
                        [&]<int W>(Width<W> width, int64_t i) { body(width, head + i); });
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    kernel(T* logits, const int64_t* targets, float* losses, int64_t vocab,
           const double* grad_scale, float z_loss) {
  constexpr int kWidth = kPack<T>;
  T* row = logits + int64_t{blockIdx.x} * vocab;
  const int64_t target = targets[blockIdx.x];
  if (target < 0 || target >= vocab) {
    const float value = target < 0 ? 0 : NAN;
    if (threadIdx.x == 0) losses[blockIdx.x] = value;
    if (grad_scale == nullptr) return;
    for_row<kWidth>(row, vocab, [&]<int W>(Width<W>, int64_t i) {
      Floats<W> out;
#pragma unroll
      for (int j = 0; j < W; ++j) out.lane[j] = value;
      store<W>(row + i, out);
    });
    return;
  }
  const float at_target = to_float(row[target]);  // before anyone overwrites it
  SoftmaxSum all;
  for_row<kWidth>(row, vocab, [&]<int W>(Width<W>, int64_t i) { all.add(load<W>(row + i)); });
  all = block_softmax_sum(all);
  const float log_sum = logf(all.sum) + all.largest;
  if (threadIdx.x == 0) losses[blockIdx.x] = log_sum - at_target;
  if (grad_scale == nullptr) return;
  const float z_factor = 1.0F + 2.0F * z_loss * log_sum;
  const auto at_loss = static_cast<float>(*grad_scale);
  const float scale = at_loss / all.sum * z_factor;
  const float gradient_at_target =
      (__expf(at_target - all.largest) / all.sum * z_factor - 1.0F) * at_loss;
  for_row<kWidth>(row, vocab, [&]<int W>(Width<W>, int64_t i) {
    auto x = load<W>(row + i);
#pragma unroll
    for (int j = 0; j < W; ++j) {
      const float gradient = __expf(x.lane[j] - all.largest) * scale;
      x.lane[j] = i + j == target ? gradient_at_target : gradient;
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
