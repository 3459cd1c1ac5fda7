// Updates by SOAP (Vyas et al., 2409.11321), which is Adam in the eigenbases of Shampoo's
// preconditioners:
//
//   G' = Q_L^T G Q_R      m <- b1 m + (1 - b1) G'      v <- b2 v + (1 - b2) G'^2
//   w <- w - lr sqrt(1 - b2^k) / (1 - b1^k) Q_L (m / (sqrt(v) + eps)) Q_R^T      w <- w - lr wd w
//   L <- b2 L + (1 - b2) G G^T      R <- b2 R + (1 - b2) G^T G
//   every precondition_frequency steps  Q <- the Q of QR(P Q), columns by diag(Q^T P Q)
//
// It is the variant of the authors' repository at a1e5535: m is kept in the rotated basis; step 1
// sets L, R and their eigenvectors and moves no weight, so k = t - 1; eps is inside the bias
// correction. A side longer than max_precond_dim, the vocabulary, and tensors of one dimension are
// not rotated. With cautious_decay the weights before their step say which decay after it. The
// state is exp_avg (m), exp_avg_sq (v), L, R, Q_L, Q_R.
#pragma once

#include "optim/flat_moments.h"
#include "optim/hyperparameters.h"
#include "optim/optimizer.h"
#include "optim/parameter_groups.h"

namespace lmtrain {

class Soap : public Optimizer {
 public:
  // Updates only the tensors for which `takes` returns true.
  Soap(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes);
  void update(const UpdateStep& step, const at::Tensor& grad) override;
  const std::vector<OptimizerBuffer>& buffers() const override { return buffers_; }

 private:
  // Holds a side's preconditioner and its basis [B, n, n]; both are undefined for a side that is
  // not rotated.
  struct Side {
    at::Tensor sum, basis;
  };
  // Holds tensors of one shape and with the same sides rotated, as matrices [B, rows, columns].
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
  std::vector<FlatRange> ranges_;  // of all tensors that it updates
  std::vector<Batch> batches_;
  std::vector<OptimizerBuffer> buffers_;
};

}  // namespace lmtrain
