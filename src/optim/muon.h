// Muon (Jordan 2024, kellerjordan.github.io/posts/muon) for hidden matrices, as torch.optim.Muon:
//
// clang-format off
//   m <- mu m + (1 - mu) g
//   u  = (1 - mu) g + mu m   with Nesterov, else m
//   w <- w - lr wd w - lr s O
//
//   O is the orthogonal factor of u / max(|u|, 1e-7) (optim/newton_schulz.h).
//   s  = 0.2 sqrt(max(rows, columns))     for match_rms_adamw (Liu et al., 2502.16982)
//   s  = sqrt(max(1, rows / columns))     for original
// clang-format on
//
// Embeddings, head and norms are AdamW's, at the same lr. State: momentum_buffer (m) of hidden
// matrices, exp_avg and exp_avg_sq of the others.
#pragma once

#include "optim/adamw.h"
#include "optim/hyperparameters.h"

namespace lmtrain {

class Muon : public Optimizer {
 public:
  Muon(const OptimizerConfig& config, Parameters& parameters);
  // The same with another dtype for the iteration (newton_schulz.h).
  Muon(const OptimizerConfig& config, Parameters& parameters, at::ScalarType iteration_dtype);
  void update(const UpdateStep& step, const at::Tensor& grad) override;
  const std::vector<OptimizerBuffer>& buffers() const override { return buffers_; }

 private:
  struct Matrix {
    ParameterSpec spec;
    ParameterGroup group;
    double scale;  // s
  };
  // Matrices that have one shape once the tall ones are transposed; they are iterated together.
  struct Batch {
    int64_t rows = 0, columns = 0;  // rows <= columns
    std::vector<Matrix> matrices;
  };

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
