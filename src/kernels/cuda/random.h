// Random numbers on an NVIDIA GPU: a launcher like those of kernels/cuda/kernels.h, with the same
// rules of pointers, streams and errors. Only new weights need it (model/parameters.cpp).
#pragma once

#include <cstdint>

#include "kernels/cuda/kernels.h"

namespace lmtrain::cuda {

// Writes values[i] = scale * random_normal(seed, stream, i) of base/random.h, for i below `count`;
// `key` is hash_combine(seed, stream). The GPU's logarithm and cosine are its own, and both are
// computed in double, so a value is that of a CPU, or in rare cases the fp32 number beside it.
// `call.type` is not read.
void random_normals(const Call& call, float* values, int64_t count, uint64_t key, double scale);

}  // namespace lmtrain::cuda
