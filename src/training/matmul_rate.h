// Measures the rate of matrix products, with which the rate of a step is compared.
#pragma once

#include <ATen/core/Tensor.h>

namespace lmtrain {

// Returns the FLOP/s of the fastest of several square products of random matrices in this dtype, by
// our kernels and libtorch's, on libtorch's present threads. Takes a second or two on a CPU of 100
// GFLOP/s. Throws libtorch's error if memory runs out.
double best_matmul_rate(const at::Device& device, at::ScalarType dtype);

}  // namespace lmtrain
