#include "optim/guard.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text.h"

namespace lmtrain {
namespace {

// A window of nearly equal values would call any change a spike: its deviation counts as at least
// this share of its mean.
constexpr double kSmallestDeviation = 1e-3;

// How many standard deviations above the mean of `values`; 0 while there are too few of them.
double sigmas_above(const std::vector<double>& values, int64_t window, double value) {
  const auto needed = static_cast<size_t>(std::max<int64_t>(2, window / 2));
  if (values.size() < needed) return 0;
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double x : values) squares += (x - mean) * (x - mean);
  const double deviation =
      std::max(std::sqrt(squares / (count - 1)), kSmallestDeviation * std::abs(mean));
  return deviation > 0 ? (value - mean) / deviation : 0;
}

void push(std::vector<double>& values, int64_t window, double value) {
  values.push_back(value);
  if (static_cast<int64_t>(values.size()) > window)
    values.erase(values.begin(), values.end() - window);
}

}  // namespace

bool GuardState::excludes(int64_t batch) const {
  return std::find(excluded_batches.begin(), excluded_batches.end(), batch) !=
         excluded_batches.end();
}

Verdict judge_step(const GuardConfig& config, const GuardState& state, int64_t length, double loss,
                   double grad_norm) {
  if (config.on_nonfinite != GuardPolicy::kOff) {
    if (!std::isfinite(loss)) return {Anomaly::kNotFinite, "the loss is not finite"};
    if (!std::isfinite(grad_norm)) return {Anomaly::kNotFinite, "the gradient is not finite"};
  }
  const auto found = state.windows.find(length);
  if (config.on_spike == GuardPolicy::kOff || found == state.windows.end()) return {};
  const auto spike = [&](const char* what, double sigmas) {
    return Verdict{Anomaly::kSpike, str("the ", what, " is ", std::round(sigmas * 10) / 10,
                                        " standard deviations above its mean")};
  };
  const double loss_sigmas = sigmas_above(found->second.losses, config.window, loss);
  if (loss_sigmas > config.spike_sigma) return spike("loss", loss_sigmas);
  const double norm_sigmas = sigmas_above(found->second.grad_norms, config.window, grad_norm);
  if (norm_sigmas > config.spike_sigma) return spike("gradient norm", norm_sigmas);
  return {};
}

void note_update(const GuardConfig& config, GuardState& state, int64_t length, double loss,
                 double grad_norm) {
  state.skips_in_a_row = 0;
  if (config.on_spike == GuardPolicy::kOff) {
    state.windows.clear();
    return;
  }
  if (!std::isfinite(loss) || !std::isfinite(grad_norm)) return;
  GuardWindow& window = state.windows[length];
  push(window.losses, config.window, loss);
  push(window.grad_norms, config.window, grad_norm);
}

}  // namespace lmtrain
