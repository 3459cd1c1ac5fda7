// Gradients on a GPU: adding them up in fp32, and their sum of squares in fp64.
#include "kernels/cuda/common.cuh"

namespace lmtrain::cuda {
namespace {

constexpr int kBlock = 256;

template <class T, int kWidth>
__global__ void accumulate_kernel(const T* grad, float* sum, int64_t count, bool first) {
  for_each_pack_of_grid<kWidth>(count, [&]<int W>(Width<W>, int64_t i) {
    auto x = load<W>(grad + i);
    if (!first) {
      const auto before = load<W>(sum + i);
#pragma unroll
      for (int j = 0; j < W; ++j) x.lane[j] += before.lane[j];
    }
    store<W>(sum + i, x);
  });
}

template <int kWidth>
__global__ void sum_of_squares_kernel(const float* x, double* partial, int64_t count) {
  double sum = 0;
  for_each_pack_of_grid<kWidth>(count, [&]<int W>(Width<W>, int64_t i) {
    const auto value = load<W>(x + i);
#pragma unroll
    for (int j = 0; j < W; ++j) {
      sum += static_cast<double>(value.lane[j]) * static_cast<double>(value.lane[j]);
    }
  });
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void sum_kernel(const double* partial, unsigned partials, double* result) {
  double sum = 0;
  for (unsigned i = threadIdx.x; i < partials; i += blockDim.x) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *result = sum;
}

}  // namespace

void accumulate(const Call& call, const void* grad, float* sum, int64_t count, bool first) {
  if (count == 0) return;
  with_element(call.type, [&]<class T>(T) {
    // 4 elements: 16 bytes of the sum.
    const bool aligned = aligned_to(4 * sizeof(T), grad) && aligned_to(16, sum);
    with_width<4>(aligned, [&]<int W>(Width<W>) {
      accumulate_kernel<T, W><<<num_blocks(count, kBlock * W), kBlock, 0, stream_of(call)>>>(
          static_cast<const T*>(grad), sum, count, first);
    });
  });
  check_launch("accumulate");
}

void sum_of_squares(const Call& call, const float* x, double* partial, double* result,
                    int64_t count) {
  // A function of `count` alone, so that the order of the sum is one too.
  const unsigned partials =
      std::min(num_blocks(count, kBlock * 4), static_cast<unsigned>(kSumOfSquaresPartials));
  if (partials > 0) {
    with_width<4>(aligned_to(16, x), [&]<int W>(Width<W>) {
      sum_of_squares_kernel<W><<<partials, kBlock, 0, stream_of(call)>>>(x, partial, count);
    });
  }
  sum_kernel<<<1, kBlock, 0, stream_of(call)>>>(partial, partials, result);
  check_launch("sum_of_squares");
}

}  // namespace lmtrain::cuda
