// The emulator must notice what it is there for.
#include <gtest/gtest.h>

#include <cmath>

#include "cuda_runtime.h"

namespace lmtrain::emulated {
namespace {

// As translate.cmake makes it of a kernel that reads its shared memory in every block and writes it
// in the first alone.
void reads_what_another_block_wrote(float* out) {
  static emulation::Shared<float[2]> shared;
  if (blockIdx.x == 0) shared[threadIdx.x] = 1;
  __syncthreads();
  out[blockIdx.x] = shared[1 - threadIdx.x];
}

TEST(Emulator, SharedMemoryHoldsNothingWhenABlockBegins) {
  float out[3] = {};
  emulation::launch("test", reads_what_another_block_wrote, 3, 2, 0, nullptr)(out);
  EXPECT_EQ(out[0], 1);
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_TRUE(std::isnan(out[2]));
}

}  // namespace
}  // namespace lmtrain::emulated
