#include "optim/muon.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "device/device.h"
#include "device/dispatch.h"
#include "device/torch_headers.h"
#include "device/work_queue.h"
#include "optim/make_optimizer.h"
#include "optim/matrix_batch.h"

namespace lmtrain {
namespace {

struct Quintic {
  double a, b, c;  // of a x + b x^3 + c x^5
};

constexpr Quintic kJordan = {3.4445, -4.7750, 2.0315};

constexpr double kSafety = 1.01;
constexpr Quintic safely(const Quintic& p) {
  constexpr double kCube = kSafety * kSafety * kSafety;
  return {p.a / kSafety, p.b / kCube, p.c / (kCube * kSafety * kSafety)};
}

// From Algorithm 1 of 2505.16932; all later iterations use the last one.
constexpr std::array<Quintic, 8> kPolarExpress = {
    safely({8.28721201814563, -23.595886519098837, 17.300387312530933}),
    safely({4.107059111542203, -2.9478499167379106, 0.5448431082926601}),
    safely({3.9486908534822946, -2.908902115962949, 0.5518191394370137}),
    safely({3.3184196573706015, -2.488488024314874, 0.51004894012372}),
    safely({2.300652019954817, -1.6689039845747493, 0.4188073119525673}),
    safely({1.891301407787398, -1.2679958271945868, 0.37680408948524835}),
    safely({1.8750014808534479, -1.2500016453999487, 0.3750001645474248}),
    Quintic{1.875, -1.25, 0.375}};

// Returns a filter for the hidden matrices, or for all other tensors, among the tensors of `takes`.
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

// Returns the dtype in which matrices of this shape are iterated. libtorch rounds a batch of bf16
// matrices otherwise if it has at most 16^3 multiplications. So small matrices are iterated in
// fp32: their bits must not depend on the size of the batch.
at::ScalarType dtype_for(int64_t rows, int64_t columns, at::ScalarType dtype) {
  constexpr int64_t kSmall = 16;
  return dtype == at::kBFloat16 && std::min(rows, columns) <= kSmall ? at::kFloat : dtype;
}

// Returns the sum of squares of each row of O, [B, m], in this dtype.
at::Tensor row_squares(const at::Tensor& o_Bmn, at::ScalarType dtype, bool by_kernels) {
  if (!by_kernels) return at::linalg_vector_norm(o_Bmn.to(dtype), 2, {2}).square_();
  const at::Tensor squares_Bm =
      at::empty({o_Bmn.size(0), o_Bmn.size(1)}, o_Bmn.options().dtype(dtype));
  const int64_t columns = o_Bmn.size(2);
  on_cpu(o_Bmn, [&]<class T>(T) {
    parallel_for_queued(squares_Bm.numel(), grain_rows(columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        elements<float>(squares_Bm)[row] = static_cast<float>(
            cpu_kernels<T>().sum_of_squares(elements<T>(o_Bmn) + row * columns, columns));
      }
    });
  });
  return squares_Bm;
}

}  // namespace

at::Tensor newton_schulz(const at::Tensor& u_Bmn, int64_t steps, NsCoefficients coefficients) {
  const bool is_polar = coefficients == NsCoefficients::kPolarExpress;
  const bool is_tall = u_Bmn.size(1) > u_Bmn.size(2);
  const at::Tensor norm_B11 = at::linalg_vector_norm(u_Bmn, 2, {1, 2}, /*keepdim=*/true);
  at::Tensor x_Bmn =
      u_Bmn.div_(is_polar ? norm_B11.mul_(kSafety).add_(1e-7) : norm_B11.clamp_min_(1e-7));
  for (int64_t step = 0; step < steps; ++step) {
    const auto last = static_cast<int64_t>(kPolarExpress.size()) - 1;
    const Quintic& p =
        is_polar ? kPolarExpress[static_cast<size_t>(std::min(step, last))] : kJordan;
    const at::Tensor gram_Bkk = is_tall ? at::bmm(x_Bmn.mT(), x_Bmn) : at::bmm(x_Bmn, x_Bmn.mT());
    const at::Tensor mix_Bkk = at::baddbmm(gram_Bkk, gram_Bkk, gram_Bkk, p.b, p.c);
    x_Bmn =
        is_tall ? at::baddbmm(x_Bmn, x_Bmn, mix_Bkk, p.a) : at::baddbmm(x_Bmn, mix_Bkk, x_Bmn, p.a);
  }
  return x_Bmn;
}

at::ScalarType newton_schulz_dtype(const at::Tensor& weights) {
  if (weights.scalar_type() == at::kDouble) return at::kDouble;
  return resolve_precision("auto", weights.device()).dtype;
}

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
      has_kernels_(parameters.master().is_cpu() &&
                   parameters.master().scalar_type() == at::kFloat &&
                   (iteration_dtype == at::kFloat || iteration_dtype == at::kBFloat16)),
      rest_(config, parameters, taken(takes, /*hidden=*/false)),
      moments_(config, parameters, {"momentum_buffer"}, taken(takes, /*hidden=*/true)),
      buffers_(moments_.buffers()) {
  auto momentum = moments_.buffers().begin();  // in the order of the layout
  for (const ParameterSpec& spec : parameters.layout().parameters()) {
    if (!takes(spec) || !is_hidden_matrix(spec)) continue;
    const int64_t rows = spec.shape[0], columns = spec.shape[1];
    const auto fits = [&](const Batch& batch) {
      const auto count = static_cast<int64_t>(batch.matrices.size()) + 1;
      return batch.rows == rows && batch.columns == columns && fits_in_batch(count, rows, columns);
    };
    auto batch = std::find_if(batches_.begin(), batches_.end(), fits);
    if (batch == batches_.end()) batch = batches_.insert(batch, Batch{rows, columns, {}, {}});
    batch->matrices.push_back(
        {spec, group_of(config, spec), update_scale(config.adjust_lr, spec), (momentum++)->values});
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

// Directions, and two results of an iteration, of each shape.
int64_t Muon::scratch_bytes() const {
  int64_t numbers = 0;
  for (const Batch& batch : batches_)
    numbers += static_cast<int64_t>(batch.matrices.size()) * batch.rows * batch.columns;
  return 3 * numbers * static_cast<int64_t>(c10::elementSize(iteration_dtype_));
}

void Muon::update(const UpdateStep& step, const at::Tensor& grad) {
  const at::NoGradGuard no_grad;
  rest_.update(step, grad);
  if (!has_kernels_) set_directions(step, grad);
  for (const Batch& batch : batches_) {
    const at::Tensor u_Bmn = directions(batch, step, grad);
    const at::Tensor o_Bmn = newton_schulz(u_Bmn, ns_steps_, ns_coefficients_);
    const bool normalizes = batch.second_Bm.defined();
    apply(batch, step, o_Bmn, normalizes ? row_factors(batch, o_Bmn) : at::Tensor());
  }
  for (const FlatRange& range : moments_.ranges()) {
    parameters_.refresh_working(range.first, range.size);
  }
}

void Muon::set_directions(const UpdateStep& step, const at::Tensor& grad) {
  for (const FlatRange& range : moments_.ranges()) {
    const at::Tensor g = range.of(grad);
    const at::Tensor m = moments_.moment(0, range);
    if (step.grad_scale != 1) g.mul_(step.grad_scale);
    m.lerp_(g, 1 - momentum_);
    if (nesterov_) {
      g.lerp_(m, momentum_);
    } else {
      g.copy_(m);
    }
  }
}

template <class F>
void Muon::Batch::for_each_block(const F& f) const {
  const auto count = static_cast<int64_t>(matrices.size());
  parallel_for_queued(count * rows, grain_rows(columns), [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t i = begin / rows, row = begin % rows;
      const int64_t size = std::min(end - begin, rows - row);
      f(matrices[static_cast<size_t>(i)], row * columns, begin, size);
      begin += size;
    }
  });
}

at::Tensor Muon::directions(const Batch& batch, const UpdateStep& step,
                            const at::Tensor& grad) const {
  const auto count = static_cast<int64_t>(batch.matrices.size());
  const at::ScalarType dtype = dtype_for(batch.rows, batch.columns, iteration_dtype_);
  const at::Tensor u_Bmn =
      at::empty({count, batch.rows, batch.columns}, grad.options().dtype(dtype));
  if (!has_kernels_) {
    for (int64_t i = 0; i < count; ++i) {
      const ParameterSpec& spec = batch.matrices[static_cast<size_t>(i)].spec;
      u_Bmn[i].copy_(grad.narrow(0, spec.offset, spec.numel()).view(spec.shape));
    }
    return u_Bmn;
  }
  MuonMomentumConstants constants{};
  constants.momentum = static_cast<float>(momentum_);
  constants.one_minus_momentum = static_cast<float>(1 - momentum_);
  constants.grad_scale = static_cast<float>(step.grad_scale);
  constants.nesterov = nesterov_;
  on_cpu(u_Bmn, [&]<class T>(T) {
    batch.for_each_block([&](const Matrix& matrix, int64_t first, int64_t row, int64_t rows) {
      cpu_kernels<T>().muon_momentum(elements<float>(matrix.momentum) + first,
                                     elements<float>(grad) + matrix.spec.offset + first,
                                     elements<T>(u_Bmn) + row * batch.columns, rows * batch.columns,
                                     constants);
    });
  });
  return u_Bmn;
}

// The norms of O before and after follow from the norms of its rows.
at::Tensor Muon::row_factors(const Batch& batch, const at::Tensor& o_Bmn) const {
  constexpr double kEps = 1e-10;
  const at::Tensor& v_Bm = batch.second_Bm;
  const at::Tensor squares_Bm = row_squares(o_Bmn, v_Bm.scalar_type(), has_kernels_);
  v_Bm.lerp_(squares_Bm / batch.columns, 1 - normuon_beta2_);
  const at::Tensor factor_Bm = v_Bm.sqrt().add_(kEps).reciprocal_();
  const auto norm_B1 = [](const at::Tensor& of_rows_Bm) {
    return of_rows_Bm.sum(/*dim=*/1, /*keepdim=*/true).sqrt_();
  };
  const at::Tensor after_B1 = norm_B1(squares_Bm * factor_Bm.square()).add_(kEps);
  return factor_Bm.mul_(norm_B1(squares_Bm).div_(after_B1));
}

void Muon::apply(const Batch& batch, const UpdateStep& step, const at::Tensor& o_Bmn,
                 const at::Tensor& factors_Bm) {
  const auto rate = [&](const Matrix& matrix) { return step.lr * matrix.group.lr_ratio; };
  if (!has_kernels_) {
    at::Tensor n_Bmn = o_Bmn;
    if (factors_Bm.defined()) {
      n_Bmn = o_Bmn.to(factors_Bm.scalar_type()).mul_(factors_Bm.unsqueeze(2));
    }
    for (size_t i = 0; i < batch.matrices.size(); ++i) {
      const Matrix& matrix = batch.matrices[i];
      const at::Tensor n_mn = n_Bmn[static_cast<int64_t>(i)];
      const at::Tensor w_mn = parameters_.master_view(matrix.spec);
      hyperparameters_.decay(w_mn, n_mn, rate(matrix), matrix.group);
      w_mn.sub_(n_mn, rate(matrix) * matrix.scale);
    }
    return;
  }
  on_cpu(o_Bmn, [&]<class T>(T) {
    batch.for_each_block([&](const Matrix& matrix, int64_t first, int64_t row, int64_t rows) {
      MuonStepConstants constants{};
      constants.step = static_cast<float>(rate(matrix) * matrix.scale);
      constants.decay = static_cast<float>(rate(matrix) * matrix.group.weight_decay);
      constants.cautious_decay = hyperparameters_.decays_cautiously();
      cpu_kernels<T>().muon_step(elements<float>(parameters_.master()) + matrix.spec.offset + first,
                                 elements<T>(o_Bmn) + row * batch.columns,
                                 factors_Bm.defined() ? elements<float>(factors_Bm) + row : nullptr,
                                 rows, batch.columns, constants);
    });
  });
}

std::unique_ptr<Optimizer> make_muon(const OptimizerConfig& config, Parameters& parameters,
                                     const ParameterFilter& takes) {
  return std::make_unique<Muon>(config, parameters, takes);
}

}  // namespace lmtrain
