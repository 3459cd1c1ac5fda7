// fp8 by arithmetic in double, independent of libtorch's conversions.
#pragma once

#include <ATen/ops/frexp.h>
#include <ATen/ops/ldexp.h>
#include <ATen/ops/round.h>

#include "support/tensors.h"

namespace lmtrain::testing {

// x scaled so that its largest |x| is the format's largest number, rounded to the nearest number of
// the format, ties to even, and scaled back. In double but for the scale, which is fp32.
inline at::Tensor quantised(const at::Tensor& x, at::ScalarType format) {
  const bool e4m3 = format == at::kFloat8_e4m3fn;
  const double largest = e4m3 ? 448 : 57344;
  const int64_t digits = e4m3 ? 3 : 2, least_exponent = e4m3 ? -6 : -14;
  const at::Tensor exact = x.detach().to(at::kDouble);
  const auto scale = static_cast<float>(largest) / exact.abs().max().to(at::kFloat);
  const at::Tensor scaled = (exact.to(at::kFloat) * scale).to(at::kDouble).clamp(-largest, largest);
  // 2^exponent <= |scaled| < 2^(exponent + 1)
  const at::Tensor exponent = std::get<1>(at::frexp(scaled)).sub(1).clamp_min(least_exponent);
  const at::Tensor step = at::ldexp(at::ones_like(scaled), exponent - digits);
  return at::round(scaled / step) * step / scale.to(at::kDouble);
}

}  // namespace lmtrain::testing
