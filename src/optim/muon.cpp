#include "optim/muon.h"

#include <cmath>

#include "base/error.h"
#include "device/torch_headers.h"
#include "optim/matrix_batch.h"
#include "optim/newton_schulz.h"

namespace lmtrain {
namespace {

// The hidden matrices, or all others, among the tensors that `takes` returns true for.
ParameterFilter taken(const ParameterFilter& takes, bool hidden) {
  return [takes, hidden](const ParameterSpec& spec) {
    return takes(spec) && is_hidden_matrix(spec) == hidden;
  };
}

double update_scale(AdjustLr adjust_lr, const ParameterSpec& spec) {
  const auto rows = static_cast<double>(spec.shape[0]);
  const auto columns = static_cast<double>(spec.shape[1]);
  switch (adjust_lr) {
    case AdjustLr::kMatchRmsAdamW:
      return 0.2 * std::sqrt(std::max(rows, columns));
    case AdjustLr::kOriginal:
      return std::sqrt(std::max(1.0, rows / columns));
  }
  throw Error(ErrorKind::kInternal, "optimizer.adjust_lr is one without a formula");
}

bool is_tall(const ParameterSpec& spec) { return spec.shape[0] > spec.shape[1]; }

// A matrix of the flat buffer, as wide as it is high or wider.
at::Tensor wide_view(const at::Tensor& flat, const ParameterSpec& spec) {
  const at::Tensor view = flat.narrow(0, spec.offset, spec.numel()).view(spec.shape);
  return is_tall(spec) ? view.t() : view;
}

}  // namespace

Muon::Muon(const OptimizerConfig& config, Parameters& parameters, const ParameterFilter& takes)
    : Muon(config, parameters, newton_schulz_dtype(parameters.master()), takes) {}

Muon::Muon(const OptimizerConfig& config, Parameters& parameters, at::ScalarType iteration_dtype,
           const ParameterFilter& takes)
    : hyperparameters_(config),
      momentum_(config.momentum),
      nesterov_(config.nesterov),
      ns_steps_(config.ns_steps),
      iteration_dtype_(iteration_dtype),
      parameters_(parameters),
      rest_(config, parameters, taken(takes, /*hidden=*/false)),
      moments_(config, parameters, {"momentum_buffer"}, taken(takes, /*hidden=*/true)),
      buffers_(moments_.buffers()) {
  buffers_.insert(buffers_.end(), rest_.buffers().begin(), rest_.buffers().end());
  for (const ParameterSpec& spec : parameters.layout().parameters()) {
    if (!takes(spec) || !is_hidden_matrix(spec)) continue;
    const int64_t rows = std::min(spec.shape[0], spec.shape[1]);
    const int64_t columns = std::max(spec.shape[0], spec.shape[1]);
    const auto fits = [&](const Batch& batch) {
      const auto count = static_cast<int64_t>(batch.matrices.size()) + 1;
      return batch.rows == rows && batch.columns == columns && fits_in_batch(count, rows, columns);
    };
    auto batch = std::find_if(batches_.begin(), batches_.end(), fits);
    if (batch == batches_.end()) batch = batches_.insert(batch, Batch{rows, columns, {}});
    batch->matrices.push_back({spec, group_of(config, spec), update_scale(config.adjust_lr, spec)});
  }
}

void Muon::update(const UpdateStep& step, const at::Tensor& grad) {
  const at::NoGradGuard no_grad;
  rest_.update(step, grad);
  for (const FlatRange& range : moments_.ranges()) {
    const at::Tensor g = grad.narrow(0, range.first, range.size);
    const at::Tensor m = moments_.moment(0, range);
    if (step.grad_scale != 1) g.mul_(step.grad_scale);
    m.lerp_(g, 1 - momentum_);
    if (nesterov_) {
      g.lerp_(m, momentum_);
    } else {
      g.copy_(m);
    }
  }
  for (const Batch& batch : batches_) update_batch(batch, step, grad);
  for (const FlatRange& range : moments_.ranges()) {
    parameters_.refresh_working(range.first, range.size);
  }
}

void Muon::update_batch(const Batch& batch, const UpdateStep& step, const at::Tensor& direction) {
  const auto count = static_cast<int64_t>(batch.matrices.size());
  const at::Tensor x_Bmn =
      at::empty({count, batch.rows, batch.columns}, direction.options().dtype(iteration_dtype_));
  for (int64_t i = 0; i < count; ++i) {
    x_Bmn[i].copy_(wide_view(direction, batch.matrices[static_cast<size_t>(i)].spec));
  }
  x_Bmn.div_(at::linalg_vector_norm(x_Bmn, 2, {1, 2}, /*keepdim=*/true).clamp_min_(1e-7));
  const at::Tensor o_Bmn = newton_schulz(x_Bmn, ns_steps_);
  for (int64_t i = 0; i < count; ++i) {
    const Matrix& matrix = batch.matrices[static_cast<size_t>(i)];
    const double rate = step.lr * matrix.group.lr_ratio;
    wide_view(parameters_.master(), matrix.spec)
        .mul_(1 - rate * hyperparameters_.weight_decay(matrix.group, step.run))
        .sub_(o_Bmn[i], rate * matrix.scale);
  }
}

}  // namespace lmtrain
