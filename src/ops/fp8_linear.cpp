#include <torch/csrc/autograd/custom_function.h>

#include "device/torch_headers.h"
#include "ops/fp8.h"
#include "ops/operators.h"

namespace lmtrain {
namespace {

// Values and weights need digits, gradients range.
constexpr at::ScalarType kForwardFormat = at::kFloat8_e4m3fn;
constexpr at::ScalarType kGradientFormat = at::kFloat8_e5m2;

at::Tensor as_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}).contiguous(); }

// x weight', of x's shape but for the last size; `x8` is x by rows, at least.
at::Tensor product_with(const Fp8Copies& x8, const at::Tensor& weight_OI,
                        const at::Tensor& weight_amax, const at::Tensor& x) {
  const Fp8Copies w8 = fp8_cast(weight_OI, weight_amax, kForwardFormat, Fp8Layout::kRows);
  const at::Tensor y_NO =
      fp8_product({x8.rows_MN, x8.inverse_scale}, {w8.rows_MN, w8.inverse_scale}, x.scalar_type(),
                  /*fast=*/true);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = weight_OI.size(0);
  return y_NO.narrow(0, 0, x.numel() / x.size(-1)).view(sizes);
}

// The forward keeps the 8 bits of x, and nothing but the amax of the weight, which is cast again.
class Fp8LinearFunction : public torch::autograd::Function<Fp8LinearFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& input_weight) {
    const at::Tensor x_NI = as_rows(x);
    const at::Tensor weight_OI = input_weight.contiguous();
    const Fp8Copies x8 = fp8_cast(x_NI, fp8_amax(x_NI), kForwardFormat, Fp8Layout::kBoth);
    const at::Tensor weight_amax = fp8_amax(weight_OI);
    context->save_for_backward({x8.columns_NM, x8.inverse_scale, weight_OI, weight_amax});
    context->saved_data["sizes"] = x.sizes();
    return product_with(x8, weight_OI, weight_amax, x);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x_IN = saved[0], &x_inverse_scale = saved[1];
    const at::Tensor &weight_OI = saved[2], &weight_amax = saved[3];
    const at::Tensor dy_NO = as_rows(grads[0]);
    const Fp8Copies dy8 = fp8_cast(dy_NO, fp8_amax(dy_NO), kGradientFormat, Fp8Layout::kBoth);
    const Fp8Copies w8 = fp8_cast(weight_OI, weight_amax, kForwardFormat, Fp8Layout::kColumns);
    // Sums of gradients are not `fast`: their terms cancel.
    const at::Tensor dx_NI =
        fp8_product({dy8.rows_MN, dy8.inverse_scale}, {w8.columns_NM, w8.inverse_scale},
                    dy_NO.scalar_type(), /*fast=*/false);
    const at::Tensor dw_OI = fp8_product({dy8.columns_NM, dy8.inverse_scale},
                                         {x_IN, x_inverse_scale}, dy_NO.scalar_type(),
                                         /*fast=*/false);
    return {dx_NI.narrow(0, 0, dy_NO.size(0)).view(context->saved_data["sizes"].toIntVector()),
            dw_OI};
  }
};

}  // namespace

at::Tensor fp8_linear(const at::Tensor& x, const at::Tensor& weight) {
  if (at::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad()))
    return Fp8LinearFunction::apply(x, weight);
  const at::Tensor x_NI = as_rows(x), weight_OI = weight.contiguous();
  const Fp8Copies x8 = fp8_cast(x_NI, fp8_amax(x_NI), kForwardFormat, Fp8Layout::kRows);
  return product_with(x8, weight_OI, fp8_amax(weight_OI), x);
}

}  // namespace lmtrain
