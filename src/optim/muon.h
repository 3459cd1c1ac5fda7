// Updates hidden matrices by Muon (Jordan 2024, kellerjordan.github.io/posts/muon), as
// torch.optim.Muon does:
//
// clang-format off
//   m <- mu m + (1 - mu) g
//   u  = (1 - mu) g + mu m   with Nesterov, else m
//   w <- w - lr wd w - lr s O
//
//   O is about the orthogonal factor of u (newton_schulz).
//   s  = 0.2 sqrt(max(rows, columns))     for match_rms_adamw (Liu et al., 2502.16982)
//   s  = sqrt(max(1, rows / columns))     for original
//
//   With `normuon` (NorMuon, Li et al., 2510.05491), for each row of O, an output neuron,
//   v <- b2 v + (1 - b2) mean(O^2)     O <- O / (sqrt(v) + 1e-10)     then O <- O |O before| / |O|
// clang-format on
//
// The last factor keeps the Frobenius norm, and so the meaning of s, as the authors' code does. The
// paper's 0.2 sqrt(rows columns) / |O| is the same for an exact orthogonal factor and
// match_rms_adamw. With cautious_decay the sign of O decides which weights decay.
//
// AdamW updates all other tensors (embeddings, head, norms, biases) at the same lr. The state is
// momentum_buffer (m) and with `normuon` second_momentum (v, [rows]) for hidden matrices, exp_avg
// and exp_avg_sq for the others.
#pragma once

#include <ATen/core/Tensor.h>

#include "config/enums.h"
#include "optim/adamw.h"
#include "optim/hyperparameters.h"

namespace lmtrain {

// Approximates the orthogonal factor of matrices by matrix products alone:
//
//   X <- U / |U|      and each time      A = X X^T      X <- a X + (b A + c A^2) X
//
// or, so that A is small for a tall U,   A = X^T X      X <- a X + X (b A + c A^2)
//
// kQuintic (Jordan 2024, Muon): (a, b, c) = (3.4445, -4.7750, 2.0315). |U| is the Frobenius norm,
// 1e-7 at least. Five iterations bring every singular value into about [0.7, 1.2]. The coefficients
// are chosen for a steep slope at 0, not for convergence.
//
// kPolarExpress (Amsel et al., 2505.16932, Algorithm 1): each iteration has its own a, b, c, the
// best for the interval of singular values that the iteration before leaves; the singular values
// converge to 1. For safety in bf16, every polynomial but the last takes x / 1.01 in place of x.
// |U| is 1.01 times the Frobenius norm, plus 1e-7.
//
// Returns X [B, m, n] after `steps` iterations for a batch of matrices U [B, m, n], in the dtype of
// U. Overwrites U by U / |U|.
at::Tensor newton_schulz(const at::Tensor& u_Bmn, int64_t steps, NsCoefficients coefficients);

// Returns the dtype in which Muon iterates: fp64 for fp64 weights; else bf16, as in
// torch.optim.Muon, if the device supports bf16 (resolve_precision of "auto"); else fp32.
at::ScalarType newton_schulz_dtype(const at::Tensor& weights);

class Muon : public Optimizer {
 public:
  // Updates only the tensors for which `takes` returns true.
  Muon(const OptimizerConfig& config, Parameters& parameters,
       const ParameterFilter& takes = every_parameter);
  // Iterates in this dtype, instead of newton_schulz_dtype(); but matrices with a side of at most
  // 16 in fp32 instead of bf16.
  Muon(const OptimizerConfig& config, Parameters& parameters, at::ScalarType iteration_dtype,
       const ParameterFilter& takes = every_parameter);
  void update(const UpdateStep& step, const at::Tensor& grad) override;
  int64_t scratch_bytes() const override;
  const std::vector<OptimizerBuffer>& buffers() const override { return buffers_; }

 private:
  struct Matrix {
    ParameterSpec spec;
    ParameterGroup group;
    double scale;         // s
    at::Tensor momentum;  // m
  };
  // Holds matrices of one shape, which are iterated together.
  struct Batch {
    int64_t rows = 0, columns = 0;
    std::vector<Matrix> matrices;
    at::Tensor second_Bm;  // v of each matrix; without normuon undefined

    // Divides the rows of all matrices into blocks, and calls f(matrix, first element in the
    // matrix, first row in the batch, rows) for each block, on all threads at once.
    template <class F>
    void for_each_block(const F& f) const;
  };

  // Updates m, and sets the gradient to u, by ATen's operators.
  void set_directions(const UpdateStep& step, const at::Tensor& grad);
  // Returns u of a batch, [B, m, n], in the dtype of its iteration. With kernels it also updates m;
  // without, set_directions() has put u into `grad`.
  at::Tensor directions(const Batch& batch, const UpdateStep& step, const at::Tensor& grad) const;
  // Updates v by the mean O^2 of each row, and returns NorMuon's factor of each row of O, [B, m].
  at::Tensor row_factors(const Batch& batch, const at::Tensor& o_Bmn) const;
  // Decays the masters of a batch, and subtracts lr s O, O being [B, m, n], times the factor of
  // each row where `factors_Bm` is defined. O may be overwritten.
  void apply(const Batch& batch, const UpdateStep& step, const at::Tensor& o_Bmn,
             const at::Tensor& factors_Bm);

  Hyperparameters hyperparameters_;
  double momentum_;
  bool nesterov_;
  int64_t ns_steps_;
  NsCoefficients ns_coefficients_;
  double normuon_beta2_;
  at::ScalarType iteration_dtype_;
  Parameters& parameters_;
  bool has_kernels_;  // kernels/cpu has kernels for these parameters; else it uses ATen
  AdamW rest_;
  FlatMoments moments_;
  std::vector<Batch> batches_;
  std::vector<OptimizerBuffer> buffers_;
};

}  // namespace lmtrain
