// Updates hidden matrices by Muon (Jordan 2024, kellerjordan.github.io/posts/muon), as
// torch.optim.Muon does:
//
// clang-format off
//   m <- mu m + (1 - mu) g
//   u  = (1 - mu) g + mu m   with Nesterov, else m
//   w <- w - lr wd w - lr s O
//
//   O is the orthogonal factor of u / max(|u|, 1e-7), |u| the Frobenius norm (newton_schulz.h).
//   s  = 0.2 sqrt(max(rows, columns))     for match_rms_adamw (Liu et al., 2502.16982)
//   s  = sqrt(max(1, rows / columns))     for original
// clang-format on
//
// AdamW updates embeddings, head and norms, at the same lr. The state is momentum_buffer (m) for
// hidden matrices, exp_avg and exp_avg_sq for the others.
#pragma once

#include "optim/adamw.h"
#include "optim/hyperparameters.h"

namespace lmtrain {

class Muon : public Optimizer {
 public:
  // Updates only the tensors for which `takes` returns true.
  Muon(const OptimizerConfig& config, Parameters& parameters,
       const ParameterFilter& takes = every_parameter);
  // Iterates in this dtype, instead of newton_schulz_dtype() (newton_schulz.h).
  Muon(const OptimizerConfig& config, Parameters& parameters, at::ScalarType iteration_dtype,
       const ParameterFilter& takes = every_parameter);
  void update(const UpdateStep& step, const at::Tensor& grad) override;
  const std::vector<OptimizerBuffer>& buffers() const override { return buffers_; }

 private:
  struct Matrix {
    ParameterSpec spec;
    ParameterGroup group;
    double scale;  // s
  };
  // Holds matrices that have one shape once the tall ones are transposed; they are iterated
  // together.
  struct Batch {
    int64_t rows = 0, columns = 0;  // rows <= columns
    std::vector<Matrix> matrices;
  };

  // `direction` is u, in the flat buffer of the gradient.
  void update_batch(const Batch& batch, const UpdateStep& step, const at::Tensor& direction);

  Hyperparameters hyperparameters_;
  double momentum_;
  bool nesterov_;
  int64_t ns_steps_;
  at::ScalarType iteration_dtype_;
  Parameters& parameters_;
  AdamW rest_;
  FlatMoments moments_;
  std::vector<Batch> batches_;
  std::vector<OptimizerBuffer> buffers_;
};

}  // namespace lmtrain
