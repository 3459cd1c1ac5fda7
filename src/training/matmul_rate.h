// Measures the rate of matrix products, with which the rate of a step is compared.
#pragma once

#include <ATen/core/Tensor.h>

namespace lmtrain {

// Returns the FLOP/s of the fastest of several square products of random numbers in this dtype, by
// our kernels and libtorch's, on libtorch's threads as they are set. It is about what the machine
// can do, and takes a second or two on a CPU of 100 GFLOP/s.
double best_matmul_rate(const at::Device& device, at::ScalarType dtype);

}  // namespace lmtrain
