// RMSNorm on a GPU. Forward: a warp a row, or a block where rows are long. Backward: each block
// takes every n-th row and keeps the weight's gradient of its rows; a second kernel adds the
// blocks.
#include "kernels/cuda/common.cuh"

namespace lmtrain::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int64_t kLongRow = 2048;
constexpr int64_t kMostPartials = 1024;
// The shared memory that every device gives without asking, less what block_sum takes.
constexpr size_t kSharedBytes = (48 << 10) - kWarp * sizeof(float);

// kThreads: a warp or the whole block, to a row. The row is read twice, the second time from the
// cache: x + residual is the same both times.
template <class T, int kWidth, int kThreads>
__global__ void forward_kernel(const T* x, const T* residual, const T* weight, T* h, T* y,
                               float* rstd, int64_t rows, int64_t dim, float eps) {
  const int64_t row = int64_t{blockIdx.x} * (kBlock / kThreads) + threadIdx.x / kThreads;
  if (row >= rows) return;
  const int64_t thread = threadIdx.x % kThreads;
  const int64_t first = row * dim;
  const auto read = [&]<int W>(Width<W>, int64_t i) {
    auto value = load<W>(x + first + i);
    if (residual == nullptr) return value;
    const auto added = load<W>(residual + first + i);
#pragma unroll
    for (int j = 0; j < W; ++j) value.lane[j] = rounded<T>(value.lane[j] + added.lane[j]);
    return value;
  };
  float sum = 0;
  for_each_pack<kWidth>(dim, thread, kThreads, [&]<int W>(Width<W>, int64_t i) {
    const auto value = read(Width<W>{}, i);
    if (residual != nullptr) store<W>(h + first + i, value);
#pragma unroll
    for (int j = 0; j < W; ++j) sum += value.lane[j] * value.lane[j];
  });
  sum = kThreads == kWarp ? warp_sum(sum) : block_sum(sum);
  const float scale = 1.0F / sqrtf(sum / static_cast<float>(dim) + eps);
  if (thread == 0) rstd[row] = scale;
  for_each_pack<kWidth>(dim, thread, kThreads, [&]<int W>(Width<W>, int64_t i) {
    auto value = read(Width<W>{}, i);
    const auto w = load<W>(weight + i);
#pragma unroll
    for (int j = 0; j < W; ++j) value.lane[j] *= scale * w.lane[j];
    store<W>(y + first + i, value);
  });
}

// A block's sums lie in shared memory, or in its row of `partial` where they are too many.
template <class T, int kWidth>
__global__ void backward_kernel(const T* dy, const T* dh, const T* h, const T* weight,
                                const float* rstd, T* dx, float* partial, int64_t rows, int64_t dim,
                                bool in_shared) {
  extern __shared__ float shared[];
  float* of_block = partial + int64_t{blockIdx.x} * dim;
  float* sums = in_shared ? shared : of_block;
  // Each thread touches the same columns in every loop, so that these need no synchronisation.
  const auto for_columns = [&](const auto& body) {
    for_each_pack<kWidth>(dim, threadIdx.x, blockDim.x, body);
  };
  for_columns([&]<int W>(Width<W>, int64_t i) {
#pragma unroll
    for (int j = 0; j < W; ++j) sums[i + j] = 0;
  });
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t first = row * dim;
    const float scale = rstd[row];
    float dot = 0;
    for_columns([&]<int W>(Width<W>, int64_t i) {
      const auto g = load<W>(dy + first + i);
      const auto v = load<W>(h + first + i);
      const auto w = load<W>(weight + i);
#pragma unroll
      for (int j = 0; j < W; ++j) dot += g.lane[j] * w.lane[j] * v.lane[j];
    });
    const float shift = block_sum(dot) * scale * scale * scale / static_cast<float>(dim);
    for_columns([&]<int W>(Width<W>, int64_t i) {
      const auto g = load<W>(dy + first + i);
      const auto v = load<W>(h + first + i);
      const auto w = load<W>(weight + i);
      Floats<W> out{};
      if (dh != nullptr) out = load<W>(dh + first + i);
#pragma unroll
      for (int j = 0; j < W; ++j) {
        sums[i + j] += g.lane[j] * v.lane[j] * scale;
        out.lane[j] += g.lane[j] * w.lane[j] * scale - v.lane[j] * shift;
      }
      store<W>(dx + first + i, out);
    });
  }
  if (!in_shared) return;
  for_columns([&]<int W>(Width<W>, int64_t i) {
#pragma unroll
    for (int j = 0; j < W; ++j) of_block[i + j] = shared[i + j];
  });
}

// A warp of columns a block; its warps take every n-th partial.
template <class T>
__global__ void sum_partials_kernel(const float* partial, T* dw, int64_t partials, int64_t dim) {
  __shared__ float of_warp[kBlock / kWarp][kWarp];
  const int64_t column = int64_t{blockIdx.x} * kWarp + threadIdx.x;
  float sum = 0;
  if (column < dim) {
    for (int64_t i = threadIdx.y; i < partials; i += blockDim.y) sum += partial[i * dim + column];
  }
  of_warp[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= dim) return;
  sum = 0;
  for (unsigned i = 0; i < blockDim.y; ++i) sum += of_warp[i][threadIdx.x];
  dw[column] = from_float<T>(sum);
}

}  // namespace

int64_t rms_norm_partials(int64_t rows) { return std::min(rows, kMostPartials); }

void rms_norm_forward(const Call& call, const void* x, const void* residual, const void* weight,
                      void* h, void* y, float* rstd, int64_t rows, int64_t dim, float eps) {
  if (rows == 0) return;
  with_element(call.type, [&]<class T>(T) {
    const bool aligned = dim % kPack<T> == 0 && aligned_to(16, x) && aligned_to(16, residual) &&
                         aligned_to(16, weight) && aligned_to(16, h) && aligned_to(16, y);
    with_width<kPack<T>>(aligned, [&]<int W>(Width<W>) {
      const auto launch = [&](auto kernel, int64_t rows_of_block) {
        kernel<<<num_blocks(rows, rows_of_block), kBlock, 0, stream_of(call)>>>(
            static_cast<const T*>(x), static_cast<const T*>(residual),
            static_cast<const T*>(weight), static_cast<T*>(h), static_cast<T*>(y), rstd, rows, dim,
            eps);
      };
      if (dim <= kLongRow) {
        launch(forward_kernel<T, W, kWarp>, kBlock / kWarp);
      } else {
        launch(forward_kernel<T, W, kBlock>, 1);
      }
    });
  });
  check_launch("rms_norm_forward");
}

void rms_norm_backward(const Call& call, const void* dy, const void* dh, const void* h,
                       const void* weight, const float* rstd, void* dx, void* dw, float* partial,
                       int64_t rows, int64_t dim) {
  const int64_t partials = rms_norm_partials(rows);
  with_element(call.type, [&]<class T>(T) {
    const bool aligned = dim % kPack<T> == 0 && aligned_to(16, dy) && aligned_to(16, dh) &&
                         aligned_to(16, h) && aligned_to(16, weight) && aligned_to(16, dx);
    const size_t bytes = static_cast<size_t>(dim) * sizeof(float);
    const bool in_shared = bytes <= kSharedBytes;
    if (partials > 0) {
      with_width<kPack<T>>(aligned, [&]<int W>(Width<W>) {
        backward_kernel<T, W>
            <<<static_cast<unsigned>(partials), num_threads(dim / W, kBlock), in_shared ? bytes : 0,
               stream_of(call)>>>(static_cast<const T*>(dy), static_cast<const T*>(dh),
                                  static_cast<const T*>(h), static_cast<const T*>(weight), rstd,
                                  static_cast<T*>(dx), partial, rows, dim, in_shared);
      });
    }
    sum_partials_kernel<T>
        <<<num_blocks(dim, kWarp), dim3(kWarp, kBlock / kWarp), 0, stream_of(call)>>>(
            partial, static_cast<T*>(dw), partials, dim);
  });
  check_launch("rms_norm_backward");
}

}  // namespace lmtrain::cuda
