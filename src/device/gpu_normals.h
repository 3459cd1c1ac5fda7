// Makes random numbers where a GPU needs them: a model of 1.1B parameters has as many, which take
// seconds of a CPU, and more seconds on their way.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lmtrain {

// Sets element i of `values` to scale * random_normal(seed, stream, i) of base/random.h, where
// `key` is hash_combine(seed, stream); in rare cases to the fp32 number beside it. Requires a
// contiguous fp32 tensor with has_cuda_kernel() (device/dispatch.h).
void fill_with_normals(const at::Tensor& values, uint64_t key, double scale);

}  // namespace lmtrain
