// SOAP (Vyas et al., 2409.11321): Adam in the eigenbases of Shampoo's preconditioners.
//
//   G' = Q_L^T G Q_R      m <- b1 m + (1 - b1) G'      v <- b2 v + (1 - b2) G'^2
//   w <- w - lr sqrt(1 - b2^k) / (1 - b1^k) Q_L (m / (sqrt(v) + eps)) Q_R^T      w <- w - lr wd w
//   L <- b2 L + (1 - b2) G G^T      R <- b2 R + (1 - b2) G^T G
//   every precondition_frequency steps  Q <- the Q of QR(P Q), columns by diag(Q^T P Q)
//
// The variant of the authors' repository at a1e5535: m lives in the rotated basis; step 1 sets L, R
// and their eigenvectors and moves no weight, so k = t - 1; eps is inside the bias correction. A
// side longer than max_precond_dim, the vocabulary, and tensors of one dimension are not rotated.
// State: exp_avg (m), exp_avg_sq (v), L, R, Q_L, Q_R.
#pragma once

#include "optim/hyperparameters.h"
#include "optim/optimizer.h"
#include "optim/parameter_groups.h"

namespace lmtrain {

class Soap : public Optimizer {
 public:
  Soap(const OptimizerConfig& config, Parameters& parameters);
  void update(const UpdateStep& step, const at::Tensor& grad) override;
  const std::vector<OptimizerBuffer>& buffers() const override { return buffers_; }

 private:
  // A side's preconditioner and its basis [B, n, n]; both undefined for one that is not rotated.
  struct Side {
    at::Tensor sum, basis;
  };
  // Tensors of one shape and with the same sides rotated, as matrices [B, rows, columns].
  struct Batch {
    int64_t rows = 0, columns = 0;
    bool rotates_left = false, rotates_right = false;
    std::vector<ParameterSpec> specs;
    std::vector<ParameterGroup> groups;
    at::Tensor first, second;  // m, v
    Side left, right;
  };

  void add(const OptimizerConfig& config, const ParameterSpec& spec);
  void allocate(Batch& batch, const at::Tensor& like);
  void update_batch(Batch& batch, const UpdateStep& step, const at::Tensor& grad);
  void apply(const Batch& batch, const UpdateStep& step, double correction,
             const at::Tensor& direction_Brc);
  void renew_bases(Batch& batch);

  Hyperparameters hyperparameters_;
  double eps_;
  int64_t frequency_, max_dim_;
  Parameters& parameters_;
  std::vector<Batch> batches_;
  std::vector<OptimizerBuffer> buffers_;
};

}  // namespace lmtrain
