// The random numbers of base/random.h on a GPU, whose functions only the host can call.
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/random.h"

namespace lmtrain::cuda {
namespace {

constexpr int kBlock = 256;

// mix64 of base/hash.h.
__device__ uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

__device__ double uniform(uint64_t key, uint64_t index) {
  return static_cast<double>(mixed(key ^ mixed(index)) >> 11) * 0x1.0p-53;
}

__global__ void random_normals_kernel(float* values, int64_t count, uint64_t key, double scale) {
  constexpr double kTwoPi = 6.283185307179586476925;
  for_each_pack_of_grid<1>(count, [&]<int W>(Width<W>, int64_t i) {
    const auto index = 2 * static_cast<uint64_t>(i);
    const double radius = sqrt(-2.0 * log1p(-uniform(key, index)));
    values[i] = static_cast<float>(scale * (radius * cos(kTwoPi * uniform(key, index + 1))));
  });
}

}  // namespace

void random_normals(const Call& call, float* values, int64_t count, uint64_t key, double scale) {
  if (count == 0) return;
  random_normals_kernel<<<num_blocks(count, kBlock), kBlock, 0, stream_of(call)>>>(values, count,
                                                                                   key, scale);
  check_launch("random_normals");
}

}  // namespace lmtrain::cuda
