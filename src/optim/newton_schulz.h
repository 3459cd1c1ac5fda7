// Approximates the orthogonal factor of matrices by matrix products alone:
//
//   X <- U / |U|      and each time      A = X X^T      X <- a X + (b A + c A^2) X
//
// or, so that A is small where U is tall,  A = X^T X      X <- a X + X (b A + c A^2)
//
// kQuintic (Jordan 2024, Muon): (a, b, c) = (3.4445, -4.7750, 2.0315). |U| is the Frobenius norm,
// 1e-7 at least. Five iterations bring every singular value into about [0.7, 1.2]. The coefficients
// are chosen for a steep slope at 0, not for convergence.
//
// kPolarExpress (Amsel et al., 2505.16932, Algorithm 1): each iteration has its own a, b, c, the
// best ones for the interval of singular values that the iteration before leaves. They converge.
// For safety in bf16, every polynomial but the last takes x / 1.01 in place of x. |U| is 1.01 times
// the Frobenius norm, plus 1e-7.
#pragma once

#include <ATen/core/Tensor.h>

#include "config/enums.h"

namespace lmtrain {

// Returns X [B, m, n] after `steps` iterations for a batch of matrices U [B, m, n]. Divides U by
// its norms in place. All products have the dtype of U.
at::Tensor newton_schulz(const at::Tensor& u_Bmn, int64_t steps, NsCoefficients coefficients);

// Returns the dtype in which Muon iterates: fp64 for fp64 weights; else bf16, as torch.optim.Muon
// does, if the device supports it (resolve_precision of "auto"); else fp32.
at::ScalarType newton_schulz_dtype(const at::Tensor& weights);

}  // namespace lmtrain
