#include "ops/fp8.h"

#include <limits>

#include "device/dispatch.h"
#include "device/torch_headers.h"

namespace lmtrain {
namespace {

double largest_of(at::ScalarType format) {
  return format == at::kFloat8_e4m3fn
             ? static_cast<double>(std::numeric_limits<c10::Float8_e4m3fn>::max())
             : static_cast<double>(std::numeric_limits<c10::Float8_e5m2>::max());
}

int64_t rounded_up(int64_t rows) { return (rows + kFp8Multiple - 1) / kFp8Multiple * kFp8Multiple; }

Fp8Copies cast_by_kernel(const at::Tensor& x_MN, const at::Tensor& amax, at::ScalarType format,
                         Fp8Layout layout) {
  const int64_t rows = x_MN.size(0), padded = rounded_up(rows), columns = x_MN.size(1);
  const auto bytes = x_MN.options().dtype(format);
  Fp8Copies copies;
  if (layout != Fp8Layout::kColumns) copies.rows_MN = at::empty({padded, columns}, bytes);
  if (layout != Fp8Layout::kRows) copies.columns_NM = at::empty({columns, padded}, bytes);
  copies.inverse_scale = at::empty({}, amax.options());
  const auto data = [](const at::Tensor& copy) {
    return copy.defined() ? static_cast<uint8_t*>(copy.data_ptr()) : nullptr;
  };
  on_cuda(x_MN, [&](const auto& call) {
    cuda::fp8_cast(call, x_MN.data_ptr(), elements<float>(amax), amax.numel(),
                   format == at::kFloat8_e4m3fn ? cuda::Fp8Format::kE4M3 : cuda::Fp8Format::kE5M2,
                   data(copies.rows_MN), data(copies.columns_NM),
                   elements<float>(copies.inverse_scale), rows, padded, columns);
  });
  return copies;
}

// The same, bit for bit.
Fp8Copies cast_by_aten(const at::Tensor& x_MN, const at::Tensor& amax, at::ScalarType format,
                       Fp8Layout layout) {
  const double largest = largest_of(format);
  const at::Tensor limit = at::scalar_tensor(largest, amax.options());
  // A NaN passes through clamping.
  const at::Tensor largest_amax = amax.amax().clamp_min(cuda::kFp8LeastAmax);
  const at::Tensor rows_MN =
      at::constant_pad_nd(x_MN, {0, 0, 0, rounded_up(x_MN.size(0)) - x_MN.size(0)})
          .to(at::kFloat)
          .mul(limit / largest_amax)
          .clamp(-largest, largest)
          .to(format);
  Fp8Copies copies;
  if (layout != Fp8Layout::kColumns) copies.rows_MN = rows_MN;
  if (layout != Fp8Layout::kRows) copies.columns_NM = rows_MN.t().contiguous();
  copies.inverse_scale = largest_amax / limit;
  return copies;
}

}  // namespace

at::Tensor fp8_amax(const at::Tensor& x) {
  if (!has_cuda_kernel(x)) return x.abs().amax().to(at::kFloat).view({1});
  at::Tensor amax;
  on_cuda(x, [&](const auto& call) {
    amax = at::empty({cuda::fp8_amax_parts(x.numel())}, x.options().dtype(at::kFloat));
    cuda::fp8_amax(call, x.data_ptr(), elements<float>(amax), x.numel());
  });
  return amax;
}

Fp8Copies fp8_cast(const at::Tensor& x_MN, const at::Tensor& amax, at::ScalarType format,
                   Fp8Layout layout) {
  return has_cuda_kernel(x_MN) ? cast_by_kernel(x_MN, amax, format, layout)
                               : cast_by_aten(x_MN, amax, format, layout);
}

at::Tensor fp8_product(const Fp8Operand& a_MK, const Fp8Operand& b_NK, at::ScalarType dtype,
                       bool fast) {
  if (a_MK.values.is_cuda()) {
    return at::_scaled_mm(a_MK.values, b_NK.values.t(), a_MK.inverse_scale, b_NK.inverse_scale,
                          /*bias=*/{}, /*scale_result=*/{}, dtype, fast);
  }
  const at::Tensor sums_MN = at::mm(a_MK.values.to(at::kFloat), b_NK.values.to(at::kFloat).t());
  return sums_MN.mul_(a_MK.inverse_scale).mul_(b_NK.inverse_scale).to(dtype);
}

}  // namespace lmtrain
