#include "model/rope.h"

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

}  // namespace

std::pair<at::Tensor, at::Tensor> rope_tables(const ModelConfig& model, int64_t length,
                                              at::Device device) {
  const int64_t head_dim = model.resolved_head_dim();
  const at::Tensor exponents =
      at::arange(0, head_dim, 2, at::kFloat) / static_cast<double>(head_dim);
  at::Tensor frequencies = 1.0 / at::pow(model.rope_theta, exponents);
  if (model.rope_scaling && model.rope_scaling->rope_type == RopeType::kLlama3) {
    frequencies = scale_llama3(frequencies, *model.rope_scaling);
  }
  const at::Tensor angles = at::outer(at::arange(length, at::kFloat), frequencies);
  return {angles.cos().to(device), angles.sin().to(device)};
}

}  // namespace lmtrain
