// Updates hidden matrices by Muon (Jordan 2024, kellerjordan.github.io/posts/muon), as
// torch.optim.Muon does:
//
// clang-format off
//   m <- mu m + (1 - mu) g
//   u  = (1 - mu) g + mu m   with Nesterov, else m
//   w <- w - lr wd w - lr s O
//
//   O is about the orthogonal factor of u (newton_schulz.h).
//   s  = 0.2 sqrt(max(rows, columns))     for match_rms_adamw (Liu et al., 2502.16982)
//   s  = sqrt(max(1, rows / columns))     for original
//
//   With `normuon` (NorMuon, Li et al., 2510.05491), for each row of O, an output neuron,
//   v <- b2 v + (1 - b2) mean(O^2)     O <- O / (sqrt(v) + 1e-10)     then O <- O |O before| / |O|
// clang-format on
//
// The last factor keeps the Frobenius norm, and so the meaning of s, as the authors' code does; the
// paper's 0.2 sqrt(rows columns) / |O| is the same for an exact orthogonal factor and
// match_rms_adamw. With cautious_decay O is the step that decides what decays.
//
// AdamW updates embeddings, head and norms, at the same lr. The state is momentum_buffer (m) and
// with `normuon` second_momentum (v, [rows]) for hidden matrices, exp_avg and exp_avg_sq for the
// others.
#pragma once

#include "optim/adamw.h"
#include "optim/hyperparameters.h"

namespace lmtrain {

class Muon : public Optimizer {
 public:
  // Updates only the tensors for which `takes` returns true.
  Muon(const OptimizerConfig& config, Parameters& parameters,
       const ParameterFilter& takes = every_parameter);
  // Iterates in this dtype, instead of newton_schulz_dtype() (newton_schulz.h). Where it is bf16,
  // matrices with a side of at most 16 are iterated in fp32.
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

    // Calls f(matrix, first number in it, first row in the batch, rows) for blocks of rows that
    // together are the batch, on all threads.
    template <class F>
    void for_each_block(const F& f) const;
  };

  // Updates m, and sets the gradient to u, by ATen's operators.
  void set_directions(const UpdateStep& step, const at::Tensor& grad);
  // Returns u of a batch, [B, m, n], in the dtype that it is iterated in. With kernels it updates m
  // on the way; else `grad` is u already.
  at::Tensor directions(const Batch& batch, const UpdateStep& step, const at::Tensor& grad) const;
  // Adds the mean O^2 of the rows of a batch to v, and returns the factor of each row, [B, m], that
  // makes O NorMuon's.
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
  bool has_kernels_;  // kernels/cpu serves these parameters; else ATen's operators, the oracle, do
  AdamW rest_;
  FlatMoments moments_;
  std::vector<Batch> batches_;
  std::vector<OptimizerBuffer> buffers_;
};

}  // namespace lmtrain
