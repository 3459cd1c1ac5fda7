// Makes random numbers on an NVIDIA GPU. The rules of pointers, streams and errors are in
// kernels/cuda/kernels.h. Only new weights need it (model/parameters.cpp).
#pragma once

#include <cstdint>

#include "kernels/cuda/kernels.h"

namespace lmtrain::cuda {

// Writes values[i] = scale * random_normal(seed, stream, i) of base/random.h, for i below `count`;
// `key` is hash_combine(seed, stream). The GPU computes its own logarithm and cosine in double. So
// a value equals the CPU's, or in rare cases is the fp32 number beside it. `call.type` is not read.
void random_normals(const Call& call, float* values, int64_t count, uint64_t key, double scale);

}  // namespace lmtrain::cuda
