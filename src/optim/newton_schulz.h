// The orthogonal factor of matrices, roughly, by matrix products alone (Jordan 2024, Muon).
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

// The dtype in which Muon iterates: bf16, as torch.optim.Muon, where the device has it; else the
// dtype of the weights. fp64 stays fp64.
at::ScalarType newton_schulz_dtype(const at::Tensor& weights);

}  // namespace lmtrain
