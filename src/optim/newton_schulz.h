// Approximates the orthogonal factor of matrices by matrix products alone:
//
//   X <- U / |U|      and each time      A = X X^T      X <- a X + (b A + c A^2) X
//
// or, so that A is small where U is tall,  A = X^T X      X <- a X + X (b A + c A^2)
//
// kQuintic (Jordan 2024, Muon): (a, b, c) = (3.4445, -4.7750, 2.0315), and |U| is the Frobenius
// norm, 1e-7 at least. Five iterations bring every singular value into about [0.7, 1.2]; the
// coefficients are chosen for the slope at 0, not for convergence.
// kPolarExpress (Amsel et al., 2505.16932, Algorithm 1): a, b, c differ from iteration to
// iteration, each best for the interval that the one before leaves, and converge. All but the last
// are those of x / 1.01, and |U| is 1.01 times the Frobenius norm, plus 1e-7, for safety in bf16.
#pragma once

#include <ATen/core/Tensor.h>

#include "config/enums.h"

namespace lmtrain {

// Returns X after `steps` iterations for a batch of matrices U [B, m, n], which it divides by their
// norms in place. All products have the dtype of u.
at::Tensor newton_schulz(const at::Tensor& u_Bmn, int64_t steps, NsCoefficients coefficients);

// Returns the dtype in which Muon iterates: bf16, as torch.optim.Muon does, where the device has it
// (resolve_precision of "auto"), else fp32. It is fp64 for weights in fp64.
at::ScalarType newton_schulz_dtype(const at::Tensor& weights);

}  // namespace lmtrain
