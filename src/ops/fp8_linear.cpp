#include <torch/csrc/autograd/custom_function.h>

#include "device/torch_headers.h"
#include "ops/fp8.h"
#include "ops/matmul.h"
#include "ops/operators.h"

namespace lmtrain {
namespace {

// Values and weights need digits, gradients range.
constexpr at::ScalarType kForwardFormat = at::kFloat8_e4m3fn;
constexpr at::ScalarType kGradientFormat = at::kFloat8_e5m2;

// x weight', whose rows beyond `rows` are cut off; x8 is x by rows, at least.
at::Tensor product_with(const Fp8Copies& x8, const at::Tensor& weight_OI,
                        const at::Tensor& weight_amax, int64_t rows, at::ScalarType dtype) {
  const Fp8Copies w8 = fp8_cast(weight_OI, weight_amax, kForwardFormat, Fp8Layout::kRows);
  return fp8_product({x8.rows_MN, x8.inverse_scale}, {w8.rows_MN, w8.inverse_scale}, dtype,
                     /*fast=*/true)
      .narrow(0, 0, rows);
}

class Fp8LinearFunction : public torch::autograd::Function<Fp8LinearFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight) {
    const at::Tensor x_NI = as_rows(x);
    const auto [y_NO, kept] = fp8_linear_forward(x_NI, fp8_amax(x_NI), weight.contiguous());
    context->save_for_backward({kept.x_IN, kept.x_inverse_scale, kept.weight_OI, kept.weight_amax});
    context->saved_data["sizes"] = x.sizes();
    return in_shape_of(x, y_NO);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor dy_NO = as_rows(grads[0]);
    const auto [dx_NI, dw_OI] =
        fp8_linear_backward({saved[0], saved[1], saved[2], saved[3]}, dy_NO, fp8_amax(dy_NO));
    return {dx_NI.view(context->saved_data["sizes"].toIntVector()), dw_OI};
  }
};

}  // namespace

std::pair<at::Tensor, Fp8Linear> fp8_linear_forward(const at::Tensor& x, const at::Tensor& amax,
                                                    const at::Tensor& weight) {
  const Fp8Copies x8 = fp8_cast(x, amax, kForwardFormat, Fp8Layout::kBoth);
  const at::Tensor weight_amax = fp8_amax(weight);
  return {product_with(x8, weight, weight_amax, x.size(0), x.scalar_type()),
          {x8.columns_NM, x8.inverse_scale, weight, weight_amax}};
}

// The forward keeps the 8 bits of x, and nothing but the amax of the weight, which is cast again.
// Sums of gradients are not `fast`: their terms cancel.
std::pair<at::Tensor, at::Tensor> fp8_linear_backward(const Fp8Linear& linear, const at::Tensor& dy,
                                                      const at::Tensor& amax) {
  const Fp8Copies dy8 = fp8_cast(dy, amax, kGradientFormat, Fp8Layout::kBoth);
  const Fp8Copies w8 =
      fp8_cast(linear.weight_OI, linear.weight_amax, kForwardFormat, Fp8Layout::kColumns);
  const at::Tensor dx_NI =
      fp8_product({dy8.rows_MN, dy8.inverse_scale}, {w8.columns_NM, w8.inverse_scale},
                  dy.scalar_type(), /*fast=*/false);
  const at::Tensor dw_OI = fp8_product({dy8.columns_NM, dy8.inverse_scale},
                                       {linear.x_IN, linear.x_inverse_scale}, dy.scalar_type(),
                                       /*fast=*/false);
  return {dx_NI.narrow(0, 0, dy.size(0)), dw_OI};
}

at::Tensor fp8_linear(const at::Tensor& x, const at::Tensor& weight) {
  if (at::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad()))
    return Fp8LinearFunction::apply(x, weight);
  const at::Tensor x_NI = as_rows(x), weight_OI = weight.contiguous();
  const Fp8Copies x8 = fp8_cast(x_NI, fp8_amax(x_NI), kForwardFormat, Fp8Layout::kRows);
  return in_shape_of(
      x, product_with(x8, weight_OI, fp8_amax(weight_OI), x_NI.size(0), x.scalar_type()));
}

}  // namespace lmtrain
