// Casts to fp8 on a GPU in two passes: the largest |x|, and the copies by rows and by columns. The
// second pass of a tile of x writes both; the transposed one goes through shared memory.
#include <cuda_fp8.h>

#include "kernels/cuda/common.cuh"

namespace lmtrain::cuda {
namespace {

constexpr int kBlock = 256;
// The most blocks of either pass: enough to fill a GPU. The second pass reads one number of each
// block of the first.
constexpr int kMostBlocks = 1024;

// A thread has `kPack8` neighbours in `kGroup` rows of a tile.
constexpr int kPack8 = 8, kGroup = 4;
constexpr int kTileColumns = 64, kTileRows = 128;
constexpr int kTilePacks = kTileColumns / kPack8, kTileGroups = kTileRows / kGroup;
static_assert(kTilePacks * kTileGroups == kBlock);

// Where the line of a column in the transposed tile holds a group of rows. A line is one word
// longer than its groups, so that it begins one bank further than the line before. A warp writes a
// column of every pack, kWarp / kTilePacks groups of each. Columns kWarp apart would meet in a
// bank, so the groups of the later columns are rotated by that number of words.
__device__ int place_in_line(int column, int group) {
  return (group + column / kWarp * (kWarp / kTilePacks)) % kTileGroups;
}

// --- The largest |x| -----------------------------------------------------------------------------

// A NaN is larger than all, from either side: the result does not depend on an order.
__device__ float larger(float a, float b) { return a > b || a != a ? a : b; }

__device__ float warp_max(float x) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    x = larger(x, __shfl_xor_sync(0xFFFFFFFFU, x, distance));
  }
  return x;
}

// The largest x of a block of kBlock threads, for every thread; called once a kernel.
__device__ float block_max(float x) {
  __shared__ float of_warp[kBlock / kWarp];
  x = warp_max(x);
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = x;
  __syncthreads();
  return warp_max(of_warp[threadIdx.x % (kBlock / kWarp)]);
}

template <class T, int kWidth>
__global__ void amax_kernel(const T* x, float* amax, int64_t count) {
  float largest = 0;
  for_each_pack_of_grid<kWidth>(count, [&]<int W>(Width<W>, int64_t i) {
    const auto value = load<W>(x + i);
#pragma unroll
    for (int j = 0; j < W; ++j) largest = larger(largest, fabsf(value.lane[j]));
  });
  largest = block_max(largest);
  if (threadIdx.x == 0) amax[blockIdx.x] = largest;
}

// --- The copies ----------------------------------------------------------------------------------

struct E4M3 {
  static constexpr __nv_fp8_interpretation_t kFormat = __NV_E4M3;
  static constexpr float kLargest = 448;
};
struct E5M2 {
  static constexpr __nv_fp8_interpretation_t kFormat = __NV_E5M2;
  static constexpr float kLargest = 57344;
};

template <class F>
void with_format(Fp8Format format, const F& f) {
  format == Fp8Format::kE4M3 ? f(E4M3{}) : f(E5M2{});
}

// Read kWidth at a time.
template <int kWidth, class T>
__device__ Floats<kPack8> load_pack8(const T* p) {
  Floats<kPack8> x;
#pragma unroll
  for (int i = 0; i < kPack8; i += kWidth) {
    const auto part = load<kWidth>(p + i);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) x.lane[i + j] = part.lane[j];
  }
  return x;
}

// 8 numbers in fp8, the first in the lowest byte.
template <class Format>
__device__ uint2 to_fp8(const Floats<kPack8>& x, float scale) {
  uint32_t word[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const auto pair = [&](int j) -> uint32_t {
      return __nv_cvt_float2_to_fp8x2({x.lane[j] * scale, x.lane[j + 1] * scale}, __NV_SATFINITE,
                                      Format::kFormat);
    };
    word[i] = pair(4 * i) | pair(4 * i + 2) << 16;
  }
  return {word[0], word[1]};
}

__device__ uint32_t byte_of(const uint2& word, int i) {
  return (i < 4 ? word.x >> (8 * i) : word.y >> (8 * (i - 4))) & 0xFF;
}

// Rows from `rows` to `padded_rows` are zeros. `by_rows` [padded_rows, columns] or `by_columns`
// [columns, padded_rows] may be null.
template <class Format, class T, int kWidth>
__global__ void cast_kernel(const T* x, const float* amax, int num_parts, uint8_t* by_rows,
                            uint8_t* by_columns, float* inverse_scale, int64_t rows,
                            int64_t padded_rows, int64_t columns) {
  // A word is a group of rows in one column.
  __shared__ uint32_t tile[kTileColumns][kTileGroups + 1];

  float largest = 0;
  for (int i = static_cast<int>(threadIdx.x); i < num_parts; i += kBlock) {
    largest = larger(largest, amax[i]);
  }
  largest = larger(kFp8LeastAmax, block_max(largest));
  const float scale = Format::kLargest / largest;
  if (blockIdx.x == 0 && threadIdx.x == 0) *inverse_scale = largest / Format::kLargest;

  const int pack = static_cast<int>(threadIdx.x) % kTilePacks;
  const int group = static_cast<int>(threadIdx.x) / kTilePacks;
  const int64_t tiles_across = (columns + kTileColumns - 1) / kTileColumns;
  const int64_t tiles = (padded_rows + kTileRows - 1) / kTileRows * tiles_across;
  // The last tiles first: the L2 cache holds what the first pass read last.
  for (int64_t t = tiles - 1 - int64_t{blockIdx.x}; t >= 0; t -= gridDim.x) {
    const int64_t first_row = t / tiles_across * kTileRows;
    const int64_t first_column = t % tiles_across * kTileColumns;
    const int64_t row = first_row + group * kGroup;
    const int64_t column = first_column + pack * kPack8;
    if (row < padded_rows && column < columns) {
      Floats<kPack8> value[kGroup] = {};
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        if (row + i < rows) value[i] = load_pack8<kWidth>(x + (row + i) * columns + column);
      }
      uint2 fp8[kGroup];
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        fp8[i] = to_fp8<Format>(value[i], scale);
        if (by_rows != nullptr) {
          *reinterpret_cast<uint2*>(by_rows + (row + i) * columns + column) = fp8[i];
        }
      }
#pragma unroll
      for (int j = 0; j < kPack8; ++j) {
        const int line = pack * kPack8 + j;
        tile[line][place_in_line(line, group)] = byte_of(fp8[0], j) | byte_of(fp8[1], j) << 8 |
                                                 byte_of(fp8[2], j) << 16 |
                                                 byte_of(fp8[3], j) << 24;
      }
    }
    if (by_columns == nullptr) continue;
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kTileColumns * kTileGroups; i += kBlock) {
      const int64_t to_column = first_column + i / kTileGroups;
      const int64_t to_row = first_row + i % kTileGroups * kGroup;
      if (to_column < columns && to_row < padded_rows) {
        *reinterpret_cast<uint32_t*>(by_columns + to_column * padded_rows + to_row) =
            tile[i / kTileGroups][place_in_line(i / kTileGroups, i % kTileGroups)];
      }
    }
    __syncthreads();  // before the next tile
  }
}

}  // namespace

int64_t fp8_amax_parts(int64_t count) {
  return std::clamp<int64_t>((count + kBlock * kPack8 - 1) / (kBlock * kPack8), 1, kMostBlocks);
}

void fp8_amax(const Call& call, const void* x, float* amax, int64_t count) {
  with_element(call.type, [&]<class T>(T) {
    with_width<kPack<T>>(aligned_to(16, x), [&]<int W>(Width<W>) {
      amax_kernel<T, W>
          <<<static_cast<unsigned>(fp8_amax_parts(count)), kBlock, 0, stream_of(call)>>>(
              static_cast<const T*>(x), amax, count);
    });
  });
  check_launch("fp8_amax");
}

void fp8_cast(const Call& call, const void* x, const float* amax, int64_t num_parts,
              Fp8Format format, uint8_t* by_rows, uint8_t* by_columns, float* inverse_scale,
              int64_t rows, int64_t padded_rows, int64_t columns) {
  const int64_t tiles =
      int64_t{num_blocks(padded_rows, kTileRows)} * num_blocks(columns, kTileColumns);
  const auto blocks = static_cast<unsigned>(std::clamp<int64_t>(tiles, 1, kMostBlocks));
  with_format(format, [&]<class Format>(Format) {
    with_element(call.type, [&]<class T>(T) {
      with_width<kPack<T>>(aligned_to(16, x), [&]<int W>(Width<W>) {
        cast_kernel<Format, T, W><<<blocks, kBlock, 0, stream_of(call)>>>(
            static_cast<const T*>(x), amax, static_cast<int>(num_parts), by_rows, by_columns,
            inverse_scale, rows, padded_rows, columns);
      });
    });
  });
  check_launch("fp8_cast");
}

}  // namespace lmtrain::cuda
