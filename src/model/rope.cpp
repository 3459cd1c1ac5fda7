#include "model/rope.h"

#include <cmath>

#include "device/torch_headers.h"

namespace lmtrain {
namespace {

constexpr double kTwoPi = 6.283185307179586476925;

// Wavelengths above original/low_freq_factor are stretched by `factor`, those below
// original/high_freq_factor stay, and those between are interpolated.
at::Tensor scale_llama3(const at::Tensor& frequencies, const RopeScalingConfig& scaling) {
  const auto original = static_cast<double>(scaling.original_max_position_embeddings);
  const at::Tensor wavelength = kTwoPi / frequencies;
  const at::Tensor stretched = frequencies / scaling.factor;
  const at::Tensor smooth = (original / wavelength - scaling.low_freq_factor) /
                            (scaling.high_freq_factor - scaling.low_freq_factor);
  const at::Tensor between = (1 - smooth) * frequencies / scaling.factor + smooth * frequencies;
  const at::Tensor slow =
      at::where(wavelength > original / scaling.low_freq_factor, stretched, between);
  return at::where(wavelength < original / scaling.high_freq_factor, frequencies, slow);
}

// Returns the factor of cosines and sines of yarn.
double yarn_attention_factor(const RopeScalingConfig& scaling) {
  const auto scale = [&](double weight) { return 0.1 * weight * std::log(scaling.factor) + 1.0; };
  if (scaling.attention_factor) return *scaling.attention_factor;
  const double numerator = scaling.mscale.value_or(0);
  const double denominator = scaling.mscale_all_dim.value_or(0);
  // A 0 counts as none.
  return numerator > 0 && denominator > 0 ? scale(numerator) / scale(denominator) : scale(1.0);
}

// Pairs that turn more than beta_fast times in the original length stay, pairs that turn less than
// beta_slow times are stretched by `factor`, and those between are interpolated.
at::Tensor scale_yarn(double theta, const at::Tensor& exponents, const RopeScalingConfig& scaling) {
  const int64_t pairs = exponents.numel();
  const auto size = static_cast<double>(2 * pairs);
  const auto original = static_cast<double>(scaling.original_max_position_embeddings);
  const auto pair_that_turns = [&](double times) {
    return size * std::log(original / (times * kTwoPi)) / (2 * std::log(theta));
  };
  double low = pair_that_turns(scaling.beta_fast), high = pair_that_turns(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, size - 1);
  if (low == high) high += 0.001;
  const at::Tensor ramp = ((at::arange(pairs, at::kFloat) - low) / (high - low)).clamp(0, 1);
  const at::Tensor kept = 1 - ramp;
  const at::Tensor wavelengths = at::pow(theta, exponents);  // over 2 pi
  return 1.0 / (scaling.factor * wavelengths) * (1 - kept) + 1.0 / wavelengths * kept;
}

}  // namespace

std::pair<at::Tensor, at::Tensor> rope_tables(const ModelConfig& model, int64_t length,
                                              at::Device device) {
  const int64_t head_dim = model.resolved_head_dim();
  const at::Tensor exponents =
      at::arange(0, head_dim, 2, at::kFloat) / static_cast<double>(head_dim);
  at::Tensor frequencies = 1.0 / at::pow(model.rope_theta, exponents);
  double factor = 1;
  if (const auto& scaling = model.rope_scaling) {
    switch (scaling->rope_type) {
      case RopeType::kDefault:
        break;
      case RopeType::kLinear:
        frequencies = frequencies / scaling->factor;
        break;
      case RopeType::kLlama3:
        frequencies = scale_llama3(frequencies, *scaling);
        break;
      case RopeType::kYarn:
        frequencies = scale_yarn(model.rope_theta, exponents, *scaling);
        factor = yarn_attention_factor(*scaling);
        break;
    }
  }
  const at::Tensor angles = at::outer(at::arange(length, at::kFloat), frequencies);
  at::Tensor cos = angles.cos(), sin = angles.sin();
  if (factor != 1) {
    cos = cos * factor;
    sin = sin * factor;
  }
  return {cos.to(device), sin.to(device)};
}

}  // namespace lmtrain
