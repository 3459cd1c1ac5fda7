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
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "device/torch_headers.h"
#include "ops/matmul.h"
#include "optim/flat_moments.h"
#include "optim/hyperparameters.h"
#include "optim/make_optimizer.h"
#include "optim/matrix_batch.h"
#include "optim/optimizer.h"
#include "optim/parameter_groups.h"

namespace lmtrain {
namespace {

class Soap : public Optimizer {
 public:
  // Updates only the tensors for which `takes` returns true.
  Soap(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes);
  void update(const UpdateStep& step, const at::Tensor& grad) override;
  int64_t scratch_bytes() const override;
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

at::Tensor rotated(const at::Tensor& x_Brc, const at::Tensor& left, const at::Tensor& right) {
  at::Tensor y_Brc = x_Brc;
  if (left.defined()) y_Brc = batched_product(left.mT(), y_Brc);
  if (right.defined()) y_Brc = batched_product(y_Brc, right);
  return y_Brc;
}

at::Tensor rotated_back(const at::Tensor& x_Brc, const at::Tensor& left, const at::Tensor& right) {
  at::Tensor y_Brc = x_Brc;
  if (left.defined()) y_Brc = batched_product(left, y_Brc);
  if (right.defined()) y_Brc = batched_product(y_Brc, right.mT());
  return y_Brc;
}

// Matrices are decomposed one by one, each in its own memory. LAPACK's bits depend on the alignment
// of a matrix. In a batch the alignment depends on earlier matrices, which are others if processes
// divide the optimizer.

// Writes the eigenvectors to `basis`, in descending order of eigenvalues.
void decompose(const at::Tensor& sum_Bnn, const at::Tensor& basis_Bnn) {
  for (int64_t i = 0; i < sum_Bnn.size(0); ++i)
    basis_Bnn[i].copy_(std::get<1>(at::linalg_eigh(sum_Bnn[i])).flip({-1}));
}

// Makes one step of orthogonal iteration from `basis`. Returns the order of its old columns.
at::Tensor improve(const at::Tensor& sum_Bnn, const at::Tensor& basis_Bnn) {
  const at::Tensor product_Bnn = batched_product(sum_Bnn, basis_Bnn);
  const at::Tensor eigenvalues_Bn = (basis_Bnn * product_Bnn).sum(1);
  at::Tensor order_Bn =
      at::argsort(eigenvalues_Bn, /*stable=*/true, /*dim=*/-1, /*descending=*/true);
  const at::Tensor columns_Bnn = order_Bn.unsqueeze(1).expand_as(product_Bnn);
  const at::Tensor sorted_Bnn = product_Bnn.gather(2, columns_Bnn);
  for (int64_t i = 0; i < sorted_Bnn.size(0); ++i)
    basis_Bnn[i].copy_(std::get<0>(at::linalg_qr(sorted_Bnn[i])));
  return order_Bn;
}

Soap::Soap(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes)
    : hyperparameters_(config),
      eps_(config.eps),
      frequency_(config.precondition_frequency),
      max_dim_(config.max_precond_dim),
      parameters_(parameters),
      ranges_(FlatMoments(config, parameters, {}, takes).ranges()) {
  for (const ParameterSpec& spec : parameters.layout().parameters())
    if (takes(spec)) add(config, spec);
  for (Batch& batch : batches_) allocate(batch, parameters.master());
}

void Soap::add(const OptimizerConfig& config, const ParameterSpec& spec) {
  const bool matrix = spec.shape.size() == 2;
  const int64_t rows = matrix ? spec.shape[0] : 1;
  const int64_t columns = spec.shape.back();
  // The rows of embeddings and head are the vocabulary: an eigenbasis of it would cost more than
  // the model.
  const bool left = is_hidden_matrix(spec) && rows <= max_dim_;
  const bool right = matrix && columns <= max_dim_;
  const auto fits = [&](const Batch& batch) {
    const auto count = static_cast<int64_t>(batch.specs.size()) + 1;
    return batch.rows == rows && batch.columns == columns && batch.rotates_left == left &&
           batch.rotates_right == right && fits_in_batch(count, rows, columns);
  };
  auto batch = std::find_if(batches_.begin(), batches_.end(), fits);
  if (batch == batches_.end()) {
    batch = batches_.emplace(batch);
    batch->rows = rows;
    batch->columns = columns;
    batch->rotates_left = left;
    batch->rotates_right = right;
  }
  batch->specs.push_back(spec);
  batch->groups.push_back(group_of(config, spec));
}

void Soap::allocate(Batch& batch, const at::Tensor& like) {
  const auto count = static_cast<int64_t>(batch.specs.size());
  const auto new_buffer = [&](const char* name, at::IntArrayRef shape) {
    at::Tensor values = at::zeros(shape, like.options());
    for (int64_t i = 0; i < count; ++i) {
      const ParameterSpec& spec = batch.specs[static_cast<size_t>(i)];
      const bool of_weights = shape[1] == batch.rows && shape[2] == batch.columns;
      buffers_.push_back(
          {str(name, ".", spec.name), of_weights ? values[i].view(spec.shape) : values[i]});
    }
    return values;
  };
  batch.first = new_buffer("exp_avg", {count, batch.rows, batch.columns});
  batch.second = new_buffer("exp_avg_sq", {count, batch.rows, batch.columns});
  if (batch.rotates_left) {
    batch.left = {new_buffer("L", {count, batch.rows, batch.rows}),
                  new_buffer("Q_L", {count, batch.rows, batch.rows})};
  }
  if (batch.rotates_right) {
    batch.right = {new_buffer("R", {count, batch.columns, batch.columns}),
                   new_buffer("Q_R", {count, batch.columns, batch.columns})};
  }
}

// Gradients, turned gradients, directions and a product of each shape, which the allocator keeps
// apart; and the largest product of a side.
int64_t Soap::scratch_bytes() const {
  int64_t numbers = 0, product = 0;
  for (const Batch& batch : batches_) {
    const auto count = static_cast<int64_t>(batch.specs.size());
    numbers += 4 * count * batch.rows * batch.columns;
    for (const auto& [rotates, size] :
         {std::pair(batch.rotates_left, batch.rows), std::pair(batch.rotates_right, batch.columns)})
      if (rotates) product = std::max(product, count * size * size);
  }
  return (numbers + product) * static_cast<int64_t>(parameters_.master().element_size());
}

void Soap::update(const UpdateStep& step, const at::Tensor& grad) {
  const at::NoGradGuard no_grad;
  if (step.grad_scale != 1) grad.mul_(step.grad_scale);
  for (Batch& batch : batches_) update_batch(batch, step, grad);
  for (const FlatRange& range : ranges_) parameters_.refresh_working(range.first, range.size);
}

void Soap::update_batch(Batch& batch, const UpdateStep& step, const at::Tensor& grad) {
  std::vector<at::Tensor> grads;
  for (const ParameterSpec& spec : batch.specs) {
    grads.push_back(grad.narrow(0, spec.offset, spec.numel()).view({batch.rows, batch.columns}));
  }
  const at::Tensor g_Brc = at::stack(grads);
  const auto k = static_cast<double>(step.number - 1);
  const double beta1 = hyperparameters_.beta(0);
  const double beta2 = hyperparameters_.beta(1);
  if (step.number > 1) {
    const at::Tensor turned_Brc = rotated(g_Brc, batch.left.basis, batch.right.basis);
    batch.first.lerp_(turned_Brc, 1 - beta1);
    batch.second.mul_(beta2).addcmul_(turned_Brc, turned_Brc, 1 - beta2);
    const at::Tensor direction_Brc = batch.first / batch.second.sqrt().add_(eps_);
    const double correction = std::sqrt(1 - std::pow(beta2, k)) / (1 - std::pow(beta1, k));
    apply(batch, step, correction,
          rotated_back(direction_Brc, batch.left.basis, batch.right.basis));
  }
  // The preconditioners follow the update, so that a gradient is never rotated by a basis made from
  // it.
  if (batch.rotates_left) batch.left.sum.lerp_(batched_product(g_Brc, g_Brc.mT()), 1 - beta2);
  if (batch.rotates_right) batch.right.sum.lerp_(batched_product(g_Brc.mT(), g_Brc), 1 - beta2);
  if (step.number == 1) {
    if (batch.rotates_left) decompose(batch.left.sum, batch.left.basis);
    if (batch.rotates_right) decompose(batch.right.sum, batch.right.basis);
  } else if ((step.number - 1) % frequency_ == 0) {
    renew_bases(batch);
  }
}

void Soap::apply(const Batch& batch, const UpdateStep& step, double correction,
                 const at::Tensor& direction_Brc) {
  for (size_t i = 0; i < batch.specs.size(); ++i) {
    const ParameterSpec& spec = batch.specs[i];
    const double rate = step.lr * batch.groups[i].lr_ratio;
    const double decay = rate * batch.groups[i].weight_decay;
    const at::Tensor w = parameters_.master_view(spec);
    const at::Tensor u = direction_Brc[static_cast<int64_t>(i)].view(spec.shape);
    if (!hyperparameters_.decays_cautiously()) {
      w.sub_(u, rate * correction).mul_(1 - decay);
      continue;
    }
    const at::Tensor kept = at::mul(u, w).gt_(0).mul_(-decay).add_(1);
    w.sub_(u, rate * correction).mul_(kept);
  }
}

void Soap::renew_bases(Batch& batch) {
  const at::Tensor momentum_Brc = rotated_back(batch.first, batch.left.basis, batch.right.basis);
  if (batch.rotates_left) {
    const at::Tensor order_Br = improve(batch.left.sum, batch.left.basis);
    batch.second.copy_(batch.second.gather(1, order_Br.unsqueeze(2).expand_as(batch.second)));
  }
  if (batch.rotates_right) {
    const at::Tensor order_Bc = improve(batch.right.sum, batch.right.basis);
    batch.second.copy_(batch.second.gather(2, order_Bc.unsqueeze(1).expand_as(batch.second)));
  }
  batch.first.copy_(rotated(momentum_Brc, batch.left.basis, batch.right.basis));
}

}  // namespace

std::unique_ptr<Optimizer> make_soap(const OptimizerConfig& config, Parameters& parameters,
                                     const ParameterFilter& takes) {
  return std::make_unique<Soap>(config, parameters, takes);
}

}  // namespace lmtrain
