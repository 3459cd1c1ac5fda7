// Muon's options against plain loops in double: NorMuon, the coefficients of Newton-Schulz,
// cautious decay, alone and together.
#include "optim/muon.h"

#include <ATen/ops/eye.h>

#include <cmath>
#include <map>

#include "optim/support.h"

namespace lmtrain {
namespace {

using testing::random_tensor;
using testing::small_parameters;

// A matrix, row by row.
struct Values {
  size_t rows = 0, columns = 0;
  std::vector<double> at{};

  double& operator()(size_t i, size_t j) { return at[i * columns + j]; }
  double operator()(size_t i, size_t j) const { return at[i * columns + j]; }
  Values transposed() const {
    Values result{columns, rows, at};
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < columns; ++j) result(j, i) = (*this)(i, j);
    return result;
  }
  double norm() const {
    double sum = 0;
    for (const double x : at) sum += x * x;
    return std::sqrt(sum);
  }
};

Values product(const Values& a, const Values& b) {
  Values result{a.rows, b.columns, std::vector<double>(a.rows * b.columns)};
  for (size_t i = 0; i < a.rows; ++i)
    for (size_t k = 0; k < a.columns; ++k)
      for (size_t j = 0; j < b.columns; ++j) result(i, j) += a(i, k) * b(k, j);
  return result;
}

// Algorithm 1 of 2505.16932: a, b, c of each iteration, before the safety factor.
const std::vector<std::vector<double>> kPolarExpress = {
    {8.28721201814563, -23.595886519098837, 17.300387312530933},
    {4.107059111542203, -2.9478499167379106, 0.5448431082926601},
    {3.9486908534822946, -2.908902115962949, 0.5518191394370137},
    {3.3184196573706015, -2.488488024314874, 0.51004894012372},
    {2.300652019954817, -1.6689039845747493, 0.4188073119525673},
    {1.891301407787398, -1.2679958271945868, 0.37680408948524835},
    {1.8750014808534479, -1.2500016453999487, 0.3750001645474248},
    {1.875, -1.25, 0.375}};

Values orthogonalized(const Values& u, const OptimizerConfig& config) {
  const bool polar = config.ns_coefficients == NsCoefficients::kPolarExpress;
  const double norm = polar ? u.norm() * 1.01 + 1e-7 : std::max(u.norm(), 1e-7);
  Values x = u.rows > u.columns ? u.transposed() : u;
  for (double& value : x.at) value /= norm;
  for (size_t step = 0; step < static_cast<size_t>(config.ns_steps); ++step) {
    double a = 3.4445, b = -4.7750, c = 2.0315;
    if (polar) {
      const std::vector<double>& p = kPolarExpress[std::min<size_t>(step, 7)];
      const double safety = step < 7 ? 1.01 : 1;
      a = p[0] / safety;
      b = p[1] / std::pow(safety, 3);
      c = p[2] / std::pow(safety, 5);
    }
    const Values gram = product(x, x.transposed());
    const Values cubed = product(gram, x), fifth = product(gram, cubed);
    for (size_t i = 0; i < x.at.size(); ++i)
      x.at[i] = a * x.at[i] + b * cubed.at[i] + c * fifth.at[i];
  }
  return u.rows > u.columns ? x.transposed() : x;
}

// The rule of one tensor, with its state.
class Reference {
 public:
  Reference(const OptimizerConfig& config, const ParameterSpec& spec)
      : config_(config), group_(group_of(config, spec)), hidden_(is_hidden_matrix(spec)) {
    w_.rows = static_cast<size_t>(spec.shape[0]);
    w_.columns = spec.shape.size() == 2 ? static_cast<size_t>(spec.shape[1]) : 1;
    w_.at.resize(w_.rows * w_.columns);
    first_ = w_.at;
    second_.resize(hidden_ ? w_.rows : w_.at.size());
  }

  std::vector<double>& weights() { return w_.at; }

  void update(int64_t t, double lr, const std::vector<double>& g) {
    const double rate = lr * group_.lr_ratio;
    const Values step = hidden_ ? muon(g) : adamw(t, g);
    for (size_t i = 0; i < w_.at.size(); ++i) {
      const bool decays = !config_.cautious_decay || step.at[i] * w_.at[i] > 0;
      w_.at[i] -= rate * ((decays ? group_.weight_decay * w_.at[i] : 0) + step.at[i]);
    }
  }

 private:
  Values adamw(int64_t t, const std::vector<double>& g) {
    Values step = w_;
    const double b1 = config_.betas[0], b2 = config_.betas[1];
    for (size_t i = 0; i < g.size(); ++i) {
      first_[i] = b1 * first_[i] + (1 - b1) * g[i];
      second_[i] = b2 * second_[i] + (1 - b2) * g[i] * g[i];
      const double m = first_[i] / (1 - std::pow(b1, t)), v = second_[i] / (1 - std::pow(b2, t));
      step.at[i] = m / (std::sqrt(v) + config_.eps);
    }
    return step;
  }

  Values muon(const std::vector<double>& g) {
    Values u = w_;
    for (size_t i = 0; i < g.size(); ++i) {
      first_[i] = config_.momentum * first_[i] + (1 - config_.momentum) * g[i];
      u.at[i] = config_.momentum * first_[i] + (1 - config_.momentum) * g[i];
    }
    Values o = orthogonalized(u, config_);
    if (config_.normuon) {
      const double before = o.norm(), b2 = config_.normuon_beta2;
      for (size_t i = 0; i < o.rows; ++i) {
        double squares = 0;
        for (size_t j = 0; j < o.columns; ++j) squares += o(i, j) * o(i, j);
        second_[i] = b2 * second_[i] + (1 - b2) * squares / static_cast<double>(o.columns);
        for (size_t j = 0; j < o.columns; ++j) o(i, j) /= std::sqrt(second_[i]) + 1e-10;
      }
      const double after = o.norm() + 1e-10;
      for (double& value : o.at) value *= before / after;
    }
    const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(o.rows, o.columns)));
    for (double& value : o.at) value *= scale;
    return o;
  }

  OptimizerConfig config_;
  ParameterGroup group_;
  bool hidden_;
  Values w_;
  std::vector<double> first_, second_;
};

std::vector<double> doubles(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kDouble).contiguous().view(-1);
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

struct MuonCase {
  std::string name;
  bool normuon, cautious;
  NsCoefficients coefficients;
  int64_t ns_steps;
};

std::ostream& operator<<(std::ostream& out, const MuonCase& one) { return out << one.name; }

class MuonOptions : public ::testing::TestWithParam<MuonCase> {
 protected:
  static OptimizerConfig config() {
    OptimizerConfig config = testing::config_of("muon");
    config.weight_decay = 0.5;
    config.groups = {{"*.down_proj.*", 2e-3, std::nullopt}, {"*.up_proj.*", std::nullopt, 2.0}};
    config.normuon = GetParam().normuon;
    config.normuon_beta2 = 0.9;
    config.cautious_decay = GetParam().cautious;
    config.ns_coefficients = GetParam().coefficients;
    config.ns_steps = GetParam().ns_steps;
    return config;
  }

  // Twelve updates; returns the largest difference from the loops, as a share of a tensor's way.
  static double largest_share(at::ScalarType working, at::ScalarType iteration) {
    const testing::Threads one_thread(1);
    Parameters parameters = small_parameters(working);
    const at::Tensor start = parameters.master().clone();
    Muon optimizer(config(), parameters, iteration);
    std::map<std::string, Reference> references;
    for (const ParameterSpec& spec : parameters.layout().parameters()) {
      Reference& made = references.emplace(spec.name, Reference(config(), spec)).first->second;
      made.weights() = doubles(parameters.master_view(spec));
    }
    double worst = 0;
    for (int64_t step = 1; step <= 12; ++step) {
      const at::Tensor grad =
          random_tensor(start.sizes(), static_cast<uint64_t>(step), start.scalar_type());
      for (const ParameterSpec& spec : parameters.layout().parameters()) {
        const at::Tensor own = grad.narrow(0, spec.offset, spec.numel());
        // No gradient reaches it at first, as where zero_outputs are behind it; and a dead neuron.
        if (spec.name.ends_with("q_proj.weight") && step <= 2) own.zero_();
        if (spec.name.ends_with("up_proj.weight")) own.view(spec.shape)[3].zero_();
        references.at(spec.name).update(step, 0.01 * static_cast<double>(step), doubles(own * 0.5));
      }
      optimizer.update({step, 0.01 * static_cast<double>(step), 0.5, {.total = 12}}, grad);
      for (const ParameterSpec& spec : parameters.layout().parameters()) {
        const at::Tensor actual = parameters.master_view(spec).to(at::kDouble);
        const at::Tensor expected =
            at::tensor(references.at(spec.name).weights(), at::kDouble).view(spec.shape);
        const at::Tensor was =
            start.narrow(0, spec.offset, spec.numel()).view(spec.shape).to(at::kDouble);
        EXPECT_TRUE(actual.isfinite().all().item<bool>()) << spec.name;
        const double share =
            ((actual - expected).norm() / (expected - was).norm().clamp_min(1e-9)).item<double>();
        worst = std::max(worst, share);
      }
      EXPECT_TRUE(testing::same_bits(parameters.working(), parameters.master().to(working)));
    }
    testing::record_difference("difference", worst);
    return worst;
  }
};

TEST_P(MuonOptions, FollowTheReferenceInDouble) {
  EXPECT_LE(largest_share(at::kDouble, at::kDouble), 1e-11);
}

TEST_P(MuonOptions, FollowTheReferenceInFp32) {
  EXPECT_LE(largest_share(at::kFloat, at::kFloat), 1e-4);
  EXPECT_LE(largest_share(at::kBFloat16, at::kFloat), 1e-4);
}

TEST_P(MuonOptions, FollowTheReferenceIteratedInBf16) {
  EXPECT_LE(largest_share(at::kBFloat16, at::kBFloat16), 0.25);
}

INSTANTIATE_TEST_SUITE_P(
    Of, MuonOptions,
    ::testing::Values(MuonCase{"Plain", false, false, NsCoefficients::kQuintic, 5},
                      MuonCase{"Cautious", false, true, NsCoefficients::kQuintic, 5},
                      MuonCase{"NorMuon", true, false, NsCoefficients::kQuintic, 5},
                      MuonCase{"PolarExpress3", false, false, NsCoefficients::kPolarExpress, 3},
                      MuonCase{"PolarExpress10", false, false, NsCoefficients::kPolarExpress, 10},
                      MuonCase{"All", true, true, NsCoefficients::kPolarExpress, 4}),
    [](const auto& one) { return one.param.name; });

// The update of a matrix after one step without decay, by its Frobenius norm and by row.
at::Tensor first_update(bool normuon, const std::string& name, double row_scale) {
  Parameters parameters = small_parameters(at::kDouble);
  OptimizerConfig config = testing::config_of("muon");
  config.weight_decay = 0;
  config.normuon = normuon;
  const at::Tensor before = parameters.master().clone();
  const at::Tensor grad = random_tensor(before.sizes(), 3, at::kDouble);
  Muon optimizer(config, parameters, at::kDouble);
  for (const ParameterSpec& spec : parameters.layout().parameters()) {
    if (spec.name != name) continue;
    grad.narrow(0, spec.offset, spec.numel()).view(spec.shape)[1].mul_(row_scale);
    optimizer.update({1, 0.01, 1, {.total = 1}}, grad);
    return parameters.master_view(spec) -
           before.narrow(0, spec.offset, spec.numel()).view(spec.shape);
  }
  ADD_FAILURE() << name;
  return {};
}

// After one step v is the step's own mean square, so that all neurons move alike.
TEST(NorMuon, NeuronsMoveAlikeAndAllTogetherAsFarAsBefore) {
  for (const std::string name : {"gate_proj", "down_proj", "up_proj"}) {
    const std::string tensor = "model.layers.1.mlp." + name + ".weight";
    const at::Tensor plain = first_update(false, tensor, 0.05);
    const at::Tensor even = first_update(true, tensor, 0.05);
    EXPECT_NEAR((even.norm() / plain.norm()).item<double>(), 1, 1e-8) << name;
    const at::Tensor rows = even.square().mean(1).sqrt();
    EXPECT_NEAR((rows.max() / rows.min()).item<double>(), 1, 1e-6) << name;
    const at::Tensor before = plain.square().mean(1).sqrt();
    EXPECT_GT((before.max() / before.min()).item<double>(), 1.05) << name;
  }
}

// Polar Express converges to the orthogonal factor; Jordan's coefficients stay around it.
TEST(NewtonSchulz, PolarExpressConverges) {
  const auto deviation = [](NsCoefficients coefficients, int64_t steps) {
    const at::Tensor u_Bmn = random_tensor({3, 12, 20}, 8, at::kDouble);
    const at::Tensor x_Bmn = newton_schulz(u_Bmn, steps, coefficients);
    return (x_Bmn.bmm(x_Bmn.mT()) - at::eye(12, at::kDouble)).abs().max().item<double>();
  };
  EXPECT_LE(deviation(NsCoefficients::kPolarExpress, 10), 1e-9);
  EXPECT_LE(deviation(NsCoefficients::kPolarExpress, 5), 0.25);
  EXPECT_GE(deviation(NsCoefficients::kQuintic, 5), 0.25);
  EXPECT_GE(deviation(NsCoefficients::kQuintic, 10), 0.25);
}

}  // namespace
}  // namespace lmtrain
