// RMSNorm on a GPU. Forward: a warp a row, or a block where rows are long; the row stays in
// registers between its two uses. Backward: each block takes every n-th row, and its threads keep
// the weight's gradient of these rows in registers; a second kernel adds the blocks.
#include "kernels/cuda/common.cuh"

namespace lmtrain::cuda {
namespace {

constexpr int kBlock = 256;
// Packs of a row that a thread of the forward loads before it uses the first, and keeps.
constexpr int kHeld = 4;
constexpr int64_t kMostPartials = 1024;
// Threads of a block of the backward at most, each with a pack of columns. A row of more columns is
// shared among several blocks.
constexpr int kBackwardBlock = 512;
// Threads of all blocks of the backward at most: so many run at once on the 132 processors of an
// H100, if each thread has at most so many registers. With more, some blocks would begin when
// others end.
constexpr int64_t kBackwardThreads = 132 * 768;
constexpr int kBackwardRegisters = 80;
// The last sum: neighbouring columns of a block, 32 bytes of a partial, and threads to a column. So
// few columns still make many blocks.
constexpr int kSumColumns = 8, kSumLanes = 64;

// A warp or a block to a row. Rows are read and written in tiles of kHeld packs a thread. The last
// tile, which is the only one of most rows, stays in registers; the others are read again.
template <class T, int kWidth, bool kInWarp>
__global__ void __launch_bounds__(kBlock)
    forward_kernel(const T* x, const T* residual, const T* weight, T* h, T* y, float* rstd,
                   int64_t rows, int64_t dim, float eps) {
  const unsigned threads = kInWarp ? kWarp : blockDim.x;
  const unsigned thread = threadIdx.x % threads;
  const int64_t row = row_of_block() * (blockDim.x / threads) + threadIdx.x / threads;
  if (row >= rows) return;
  const int64_t tile = int64_t{kHeld} * threads * kWidth;
  const T* const sum_of_both = residual == nullptr ? x : h;
  Pack<T, kWidth> held[kHeld];
  // Calls body(number of the pack, its first element in x, h and y) for the packs of a tile.
  const auto for_tile = [&](int64_t begin, const auto& body) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const int64_t column = begin + (int64_t{k} * threads + thread) * kWidth;
      if (column < dim) body(k, row * dim + column);
    }
  };
  float sum = 0;
  int64_t begin = 0;
  for (;; begin += tile) {
    for_tile(begin, [&](int k, int64_t i) { held[k] = load_pack<kWidth>(x + i); });
    if (residual != nullptr) {
      Pack<T, kWidth> added[kHeld];
      for_tile(begin, [&](int k, int64_t i) { added[k] = load_pack<kWidth>(residual + i); });
      for_tile(begin, [&](int k, int64_t i) {
        auto value = floats_of(held[k]);
        const auto other = floats_of(added[k]);
#pragma unroll
        for (int j = 0; j < kWidth; ++j) value.lane[j] += other.lane[j];
        held[k] = pack_of<T>(value);
        store_pack(h + i, held[k]);
      });
    }
    for_tile(begin, [&](int k, int64_t) {
      const auto value = floats_of(held[k]);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum += value.lane[j] * value.lane[j];
    });
    if (begin + tile >= dim) break;
  }
  Pack<T, kWidth> weights[kHeld];
  const auto load_weights = [&] {
    for_tile(begin,
             [&](int k, int64_t i) { weights[k] = load_pack<kWidth>(weight + (i - row * dim)); });
  };
  load_weights();
  sum = kInWarp ? warp_sum(sum) : block_sum(sum);
  const float scale = 1.0F / sqrtf(sum / static_cast<float>(dim) + eps);
  if (thread == 0) rstd[row] = scale;
  for (;;) {
    for_tile(begin, [&](int k, int64_t i) {
      auto value = floats_of(held[k]);
      const auto w = floats_of(weights[k]);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) value.lane[j] *= scale * w.lane[j];
      store<kWidth>(y + i, value);
    });
    if (begin == 0) break;
    begin -= tile;
    for_tile(begin, [&](int k, int64_t i) { held[k] = load_pack<kWidth>(sum_of_both + i); });
    load_weights();
  }
}

template <int W>
__device__ float dot_of(const Floats<W>& g, const Floats<W>& v, const Floats<W>& w) {
  float dot = 0;
#pragma unroll
  for (int j = 0; j < W; ++j) dot += g.lane[j] * w.lane[j] * v.lane[j];
  return dot;
}

// A pack of columns to a thread: those of slice blockIdx.y of a row, in every n-th row, n being the
// blocks of a slice. Where there are several slices, each reads the other columns too, for the dot
// product of the whole row. The next row is on its way while threads wait for the sum of this one.
template <class T, int kWidth>
__global__ void __maxnreg__(kBackwardRegisters)
    backward_kernel(const T* dy, const T* dh, const T* h, const T* weight, const float* rstd, T* dx,
                    float* partial, int64_t rows, int64_t dim) {
  const int64_t slice = int64_t{blockDim.x} * kWidth;
  const int64_t first_column = int64_t{threadIdx.x} * kWidth;
  const int64_t column = blockIdx.y * slice + first_column;
  const bool has_columns = column < dim;
  struct Inputs {
    Pack<T, kWidth> dy, h, dh;
    float scale;
  };
  const auto inputs_of = [&](int64_t row) {
    Inputs in{};
    if (row < 0) return in;
    in.scale = rstd[row];
    if (!has_columns) return in;
    in.dy = load_pack<kWidth>(dy + row * dim + column);
    in.h = load_pack<kWidth>(h + row * dim + column);
    if (dh != nullptr) in.dh = load_pack<kWidth>(dh + row * dim + column);
    return in;
  };
  Floats<kWidth> sum{}, w{};
  if (has_columns) w = load<kWidth>(weight + column);
  // The last rows first: see row_of_block().
  int64_t row = rows - 1 - int64_t{blockIdx.x};
  Inputs next = inputs_of(row);
  for (; row >= 0; row -= gridDim.x) {
    const Inputs in = next;
    next = inputs_of(row - gridDim.x);
    const auto g = floats_of(in.dy), v = floats_of(in.h);
    auto out = floats_of(in.dh);
    const int64_t first = row * dim;
    float dot = dot_of(g, v, w);
    if (dim > slice) {
      for (int64_t i = first_column; i < dim; i += slice) {
        if (i == column) continue;
        dot += dot_of(load<kWidth>(dy + first + i), load<kWidth>(h + first + i),
                      load<kWidth>(weight + i));
      }
    }
    const float shift = block_sum(dot) * in.scale * in.scale * in.scale / static_cast<float>(dim);
    if (!has_columns) continue;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      sum.lane[j] += g.lane[j] * v.lane[j] * in.scale;
      out.lane[j] += g.lane[j] * w.lane[j] * in.scale - v.lane[j] * shift;
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
    const bool aligned = packs_fit<T>(dim, {x, residual, weight, h, y});
    with_width<kPack<T>>(aligned, [&]<int W>(Width<W>) {
      const auto launch = [&](auto forward, unsigned threads, int64_t rows_of_block) {
        forward<<<num_blocks(rows, rows_of_block), threads, 0, stream_of(call)>>>(
            static_cast<const T*>(x), static_cast<const T*>(residual),
            static_cast<const T*>(weight), static_cast<T*>(h), static_cast<T*>(y), rstd, rows, dim,
            eps);
      };
      if (dim / W <= kHeld * kWarp) {
        launch(forward_kernel<T, W, true>, kBlock, kBlock / kWarp);
      } else {
        launch(forward_kernel<T, W, false>, num_threads((dim / W + kHeld - 1) / kHeld, kBlock), 1);
      }
    });
  });
  check_launch("rms_norm_forward");
}

void rms_norm_backward(const Call& call, const void* dy, const void* dh, const void* h,
                       const void* weight, const float* rstd, void* dx, void* dw, float* partial,
                       int64_t rows, int64_t dim) {
  int64_t partials = 0;
  with_element(call.type, [&]<class T>(T) {
    const bool aligned = packs_fit<T>(dim, {dy, dh, h, weight, dx, partial});
    if (rows > 0) {
      with_width<kPack<T>>(aligned, [&]<int W>(Width<W>) {
        const unsigned threads = num_threads(dim / W, kBackwardBlock);
        const unsigned slices = num_blocks(dim, int64_t{threads} * W);
        const int64_t at_once = std::max<int64_t>(1, kBackwardThreads / (threads * slices));
        partials = std::min(rms_norm_partials(rows), at_once);
        const dim3 grid(static_cast<unsigned>(partials), slices);
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
