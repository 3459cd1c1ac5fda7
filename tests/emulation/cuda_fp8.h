// See cuda_runtime.h. Conversion by arithmetic on exponents, to the nearest, ties to even.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda_runtime.h"

enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
using __nv_fp8x2_storage_t = uint16_t;

namespace emulation {

inline uint8_t float_to_fp8(float x, __nv_fp8_interpretation_t format) {
  const int digits = format == __NV_E4M3 ? 3 : 2, bias = format == __NV_E4M3 ? 7 : 15;
  const float largest = format == __NV_E4M3 ? 448.0F : 57344.0F;
  if (std::isnan(x)) return 0x7F;
  const uint8_t sign = std::signbit(x) ? 0x80 : 0;
  const float size = std::fmin(std::fabs(x), largest);
  const int exponent = size == 0 ? 1 - bias : std::max(std::ilogb(size), 1 - bias);
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(size, digits - exponent)));
  return static_cast<uint8_t>(sign | (((exponent + bias - 1) << digits) + steps));
}

}  // namespace emulation

inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 x, __nv_saturation_t,
                                                     __nv_fp8_interpretation_t format) {
  return static_cast<uint16_t>(emulation::float_to_fp8(x.x, format) |
                               emulation::float_to_fp8(x.y, format) << 8);
}
