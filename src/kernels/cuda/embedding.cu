// The embedding's gradient on a GPU: rows that are neighbours once sorted by id are summed in fp32.
//
// The sorted positions are cut into chunks, a block each. If an id lies in one chunk, its sum is
// written at once. If it crosses a border, each chunk leaves a part, and the block of the id's
// first chunk adds the parts: a fixed order, whatever runs first.
#include "kernels/cuda/common.cuh"

namespace lmtrain::cuda {
namespace {

constexpr int kBlock = 128;
constexpr int64_t kChunk = 32;
// Rows that a thread loads before it adds the first.
constexpr int kAtOnce = 8;
// The parts that a chunk leaves: of an id that came in from the chunk before, and of an id that
// goes on into the next chunk. An id that does both is kCameIn.
enum Part : int64_t { kCameIn, kGoesOn, kNumParts };

template <int W>
__device__ void add(Floats<W>& sum, const Floats<W>& x) {
#pragma unroll
  for (int j = 0; j < W; ++j) sum.lane[j] += x.lane[j];
}

__device__ float* part_of(float* partial, int64_t chunk, Part part, int64_t dim) {
  return partial + (chunk * kNumParts + part) * dim;
}

template <class T, int kWidth>
__global__ void sum_chunks_kernel(const T* dy, const int32_t* sorted_ids, const int64_t* order,
                                  T* d_weight, float* partial, int64_t count, int64_t dim) {
  const int64_t chunk = blockIdx.x;
  const int64_t begin = chunk * kChunk;
  const int64_t end = min(count, begin + kChunk);
  for_each_pack<kWidth>(dim, threadIdx.x, blockDim.x, [&]<int W>(Width<W>, int64_t i) {
    bool came_in = begin > 0 && sorted_ids[begin - 1] == sorted_ids[begin];
    Floats<W> sum{};
    // Adds row number i_sorted; where its id ends, and at the end of the chunk, the sum goes out.
    const auto add_row = [&](int64_t i_sorted, const Floats<W>& x) {
      add(sum, x);
      const int64_t id = sorted_ids[i_sorted];
      const bool ends = i_sorted + 1 == count || sorted_ids[i_sorted + 1] != id;
      if (!ends && i_sorted + 1 < end) return;
      if (came_in) {
        store<W>(part_of(partial, chunk, kCameIn, dim) + i, sum);
      } else if (!ends) {
        store<W>(part_of(partial, chunk, kGoesOn, dim) + i, sum);
      } else {
        store<W>(d_weight + id * dim + i, sum);
      }
      sum = {};
      came_in = false;
    };
    for (int64_t first = begin; first < end; first += kAtOnce) {
      Pack<T, W> rows[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        if (first + k < end) rows[k] = load_pack<W>(dy + order[first + k] * dim + i);
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        if (first + k < end) add_row(first + k, floats_of(rows[k]));
      }
    }
  });
}

template <class T>
__global__ void join_chunks_kernel(const int32_t* sorted_ids, T* d_weight, float* partial,
                                   int64_t count, int64_t dim) {
  const int64_t chunk = blockIdx.x;
  const int64_t begin = chunk * kChunk;
  const int64_t end = begin + kChunk;
  if (end >= count) return;
  const int64_t id = sorted_ids[end - 1];
  const bool goes_on = sorted_ids[end] == id;
  const bool began_before = begin > 0 && sorted_ids[begin - 1] == id;
  if (!goes_on || began_before) return;
  for (int64_t i = threadIdx.x; i < dim; i += blockDim.x) {
    float sum = part_of(partial, chunk, kGoesOn, dim)[i];
    for (int64_t next = chunk + 1; next * kChunk < count && sorted_ids[next * kChunk] == id;
         ++next) {
      sum += part_of(partial, next, kCameIn, dim)[i];
    }
    d_weight[id * dim + i] = from_float<T>(sum);
  }
}

}  // namespace

int64_t embedding_partials(int64_t count) { return (count + kChunk - 1) / kChunk * kNumParts; }

void embedding_backward(const Call& call, const void* dy, const int32_t* sorted_ids,
                        const int64_t* order, void* d_weight, float* partial, int64_t count,
                        int64_t dim) {
  if (count == 0) return;
  const unsigned blocks = num_blocks(count, kChunk);
  with_element(call.type, [&]<class T>(T) {
    with_width<kPack<T>>(packs_fit<T>(dim, {dy, d_weight, partial}), [&]<int W>(Width<W>) {
      sum_chunks_kernel<T, W><<<blocks, num_threads(dim / W, kBlock), 0, stream_of(call)>>>(
          static_cast<const T*>(dy), sorted_ids, order, static_cast<T*>(d_weight), partial, count,
          dim);
    });
    join_chunks_kernel<T><<<blocks, num_threads(dim, kBlock), 0, stream_of(call)>>>(
        sorted_ids, static_cast<T*>(d_weight), partial, count, dim);
  });
  check_launch("embedding_backward");
}

}  // namespace lmtrain::cuda
