// RMSNorm on a GPU. Forward: a warp a row, or a block where rows are long. Backward: each block
// takes every n-th row, and its threads keep the weight's gradient of these rows in registers; a
// second kernel adds the blocks.
#include "kernels/cuda/common.cuh"

namespace lmtrain::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int64_t kLongRow = 2048;
constexpr int64_t kMostPartials = 1024;
// Threads of a block of the backward at most, each with a pack of columns. A row of more columns is
// shared among several blocks.
constexpr int kBackwardBlock = 512;
// The last sum: neighbouring columns of a block, 32 bytes of a partial, and threads to a column. So
// few columns still make many blocks.
constexpr int kSumColumns = 8, kSumLanes = 64;

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

template <int W>
__device__ float dot_of(const Floats<W>& g, const Floats<W>& v, const Floats<W>& w) {
  float dot = 0;
#pragma unroll
  for (int j = 0; j < W; ++j) dot += g.lane[j] * w.lane[j] * v.lane[j];
  return dot;
}

// A pack of columns to a thread: those of slice blockIdx.y of a row, in the rows blockIdx.x,
// blockIdx.x + gridDim.x and so on. Where there are several slices, each reads the other columns
// too, for the dot product of the whole row.
template <class T, int kWidth>
__global__ void __launch_bounds__(kBackwardBlock, 1)
    backward_kernel(const T* dy, const T* dh, const T* h, const T* weight, const float* rstd, T* dx,
                    float* partial, int64_t rows, int64_t dim) {
  const int64_t slice = int64_t{blockDim.x} * kWidth;
  const int64_t first_column = int64_t{threadIdx.x} * kWidth;
  const int64_t column = blockIdx.y * slice + first_column;
  const bool has_columns = column < dim;
  Floats<kWidth> sum{}, w{};
  if (has_columns) w = load<kWidth>(weight + column);
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t first = row * dim;
    const float scale = rstd[row];
    Floats<kWidth> g{}, v{}, out{};
    if (has_columns) {
      g = load<kWidth>(dy + first + column);
      v = load<kWidth>(h + first + column);
      if (dh != nullptr) out = load<kWidth>(dh + first + column);
    }
    float dot = dot_of(g, v, w);
    if (dim > slice) {
      for (int64_t i = first_column; i < dim; i += slice) {
        if (i == column) continue;
        dot += dot_of(load<kWidth>(dy + first + i), load<kWidth>(h + first + i),
                      load<kWidth>(weight + i));
      }
    }
    const float shift = block_sum(dot) * scale * scale * scale / static_cast<float>(dim);
    if (!has_columns) continue;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      sum.lane[j] += g.lane[j] * v.lane[j] * scale;
      out.lane[j] += g.lane[j] * w.lane[j] * scale - v.lane[j] * shift;
    }
    store<kWidth>(dx + first + column, out);
  }
  if (has_columns) store<kWidth>(partial + blockIdx.x * dim + column, sum);
}

// kSumColumns columns a block; each of its kSumLanes rows of threads takes every n-th partial.
template <class T>
__global__ void __launch_bounds__(kSumColumns* kSumLanes)
    sum_partials_kernel(const float* partial, T* dw, int64_t partials, int64_t dim) {
  constexpr unsigned kLanesOfWarp = kWarp / kSumColumns;
  __shared__ float of_warp[kSumLanes / kLanesOfWarp][kSumColumns];
  const int64_t column = int64_t{blockIdx.x} * kSumColumns + threadIdx.x;
  float sum = 0;
  if (column < dim) {
    for (int64_t i = threadIdx.y; i < partials; i += kSumLanes) sum += partial[i * dim + column];
  }
#pragma unroll
  for (int distance = kSumColumns; distance < kWarp; distance *= 2) {
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, distance);
  }
  if (threadIdx.y % kLanesOfWarp == 0) of_warp[threadIdx.y / kLanesOfWarp][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= dim) return;
  sum = 0;
  for (unsigned i = 0; i < kSumLanes / kLanesOfWarp; ++i) sum += of_warp[i][threadIdx.x];
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
      const auto launch = [&](auto forward, int64_t rows_of_block) {
        forward<<<num_blocks(rows, rows_of_block), kBlock, 0, stream_of(call)>>>(
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
                         aligned_to(16, h) && aligned_to(16, weight) && aligned_to(16, dx) &&
                         aligned_to(16, partial);
    if (partials > 0) {
      with_width<kPack<T>>(aligned, [&]<int W>(Width<W>) {
        const unsigned threads = num_threads(dim / W, kBackwardBlock);
        const dim3 grid(static_cast<unsigned>(partials), num_blocks(dim, int64_t{threads} * W));
        backward_kernel<T, W><<<grid, threads, 0, stream_of(call)>>>(
            static_cast<const T*>(dy), static_cast<const T*>(dh), static_cast<const T*>(h),
            static_cast<const T*>(weight), rstd, static_cast<T*>(dx), partial, rows, dim);
      });
    }
    sum_partials_kernel<T>
        <<<num_blocks(dim, kSumColumns), dim3(kSumColumns, kSumLanes), 0, stream_of(call)>>>(
            partial, static_cast<T*>(dw), partials, dim);
  });
  check_launch("rms_norm_backward");
}

}  // namespace lmtrain::cuda
