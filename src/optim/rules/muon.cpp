#include "optim/rules/muon.h"

#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "device/torch_headers.h"
#include "optim/rules/matrix_batch.h"
#include "optim/rules/newton_schulz.h"

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

// A matrix of the flat buffer.
at::Tensor matrix_view(const at::Tensor& flat, const ParameterSpec& spec) {
  return flat.narrow(0, spec.offset, spec.numel()).view(spec.shape);
}

// The dtype in which matrices of this shape are iterated. libtorch multiplies a batch of bf16
// matrices otherwise, and rounds otherwise, where it has at most 16^3 products of numbers in all.
// Matrices so small are iterated in fp32, lest their bits depend on how many are together.
at::ScalarType dtype_for(int64_t rows, int64_t columns, at::ScalarType dtype) {
  constexpr int64_t kSmall = 16;
  return dtype == at::kBFloat16 && std::min(rows, columns) <= kSmall ? at::kFloat : dtype;
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
      ns_coefficients_(config.ns_coefficients),
      normuon_beta2_(config.normuon_beta2),
      iteration_dtype_(iteration_dtype),
      parameters_(parameters),
      rest_(config, parameters, taken(takes, /*hidden=*/false)),
      moments_(config, parameters, {"momentum_buffer"}, taken(takes, /*hidden=*/true)),
      buffers_(moments_.buffers()) {
  for (const ParameterSpec& spec : parameters.layout().parameters()) {
    if (!takes(spec) || !is_hidden_matrix(spec)) continue;
    const int64_t rows = spec.shape[0], columns = spec.shape[1];
    const auto fits = [&](const Batch& batch) {
      const auto count = static_cast<int64_t>(batch.matrices.size()) + 1;
      return batch.rows == rows && batch.columns == columns && fits_in_batch(count, rows, columns);
    };
    auto batch = std::find_if(batches_.begin(), batches_.end(), fits);
    if (batch == batches_.end()) batch = batches_.insert(batch, Batch{rows, columns, {}, {}});
    batch->matrices.push_back({spec, group_of(config, spec), update_scale(config.adjust_lr, spec)});
  }
  for (Batch& batch : batches_) {
    if (!config.normuon) break;
    const auto count = static_cast<int64_t>(batch.matrices.size());
    batch.second_Bm = at::zeros({count, batch.rows}, parameters.master().options());
    for (int64_t i = 0; i < count; ++i) {
      const ParameterSpec& spec = batch.matrices[static_cast<size_t>(i)].spec;
      buffers_.push_back({str("second_momentum.", spec.name), batch.second_Bm[i]});
    }
  }
  buffers_.insert(buffers_.end(), rest_.buffers().begin(), rest_.buffers().end());
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
  const at::ScalarType dtype = dtype_for(batch.rows, batch.columns, iteration_dtype_);
  const at::Tensor u_Bmn =
      at::empty({count, batch.rows, batch.columns}, direction.options().dtype(dtype));
  for (int64_t i = 0; i < count; ++i) {
    u_Bmn[i].copy_(matrix_view(direction, batch.matrices[static_cast<size_t>(i)].spec));
  }
  at::Tensor o_Bmn = newton_schulz(u_Bmn, ns_steps_, ns_coefficients_);
  if (batch.second_Bm.defined()) o_Bmn = normalized(batch, o_Bmn);
  for (int64_t i = 0; i < count; ++i) {
    const Matrix& matrix = batch.matrices[static_cast<size_t>(i)];
    const double rate = step.lr * matrix.group.lr_ratio;
    const at::Tensor o_mn = o_Bmn[i];
    const at::Tensor w_mn = matrix_view(parameters_.master(), matrix.spec);
    hyperparameters_.decay(w_mn, o_mn, rate, matrix.group, step.run);
    w_mn.sub_(o_mn, rate * matrix.scale);
  }
}

// Both norms of O follow from those of its rows, so that it is read twice in all.
at::Tensor Muon::normalized(const Batch& batch, const at::Tensor& o_Bmn) const {
  constexpr double kEps = 1e-10;
  const at::Tensor& v_Bm = batch.second_Bm;
  const at::Tensor n_Bmn = o_Bmn.to(v_Bm.scalar_type());
  const at::Tensor squares_Bm = at::linalg_vector_norm(n_Bmn, 2, {2}).square_();
  v_Bm.lerp_(squares_Bm / batch.columns, 1 - normuon_beta2_);
  const at::Tensor factor_Bm = v_Bm.sqrt().add_(kEps).reciprocal_();
  const auto norm_B1 = [](const at::Tensor& of_rows_Bm) {
    return of_rows_Bm.sum(/*dim=*/1, /*keepdim=*/true).sqrt_();
  };
  const at::Tensor after_B1 = norm_B1(squares_Bm * factor_Bm.square()).add_(kEps);
  factor_Bm.mul_(norm_B1(squares_Bm).div_(after_B1));
  return n_Bmn.mul_(factor_Bm.unsqueeze(2));
}

}  // namespace lmtrain
