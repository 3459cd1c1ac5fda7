// Approximates the orthogonal factor of matrices by matrix products alone (Jordan 2024, Muon):
//
//   A = X X^T      X <- a X + (b A + c A^2) X      (a, b, c) = (3.4445, -4.7750, 2.0315)
//
// Five iterations bring every singular value of a matrix whose norm is at most 1 into about
// [0.7, 1.2]; the coefficients are chosen for the slope at 0, not for convergence.
#pragma once

#include <ATen/core/Tensor.h>

namespace lmtrain {

// Returns X after `steps` iterations for a batch of matrices [B, m, n], m <= n, each of Frobenius
// norm at most 1. All products have the dtype of x.
at::Tensor newton_schulz(at::Tensor x_Bmn, int64_t steps);

// Returns the dtype in which Muon iterates: bf16, as torch.optim.Muon does, where the device has it
// (resolve_precision of "auto"), else fp32. It is fp64 for weights in fp64.
at::ScalarType newton_schulz_dtype(const at::Tensor& weights);

}  // namespace lmtrain
