// The rate of matrix products that a step is measured against.
#pragma once

#include <ATen/core/Tensor.h>

namespace lmtrain {

// FLOP/s of the fastest of several square products of random numbers in this dtype, ours and
// libtorch's, on libtorch's threads as they are set: about what the machine can do. A second or two
// on a CPU of 100 GFLOP/s.
double best_matmul_rate(const at::Device& device, at::ScalarType dtype);

}  // namespace lmtrain
