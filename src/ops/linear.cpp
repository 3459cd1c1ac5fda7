#include <torch/csrc/autograd/custom_function.h>

#include "device/torch_headers.h"
#include "ops/matmul.h"
#include "ops/operators.h"
#include "ops/weight_gradient.h"

namespace lmtrain {
namespace {

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& input_weight) {
    const at::Tensor x_NI = as_rows(x);
    const at::Tensor weight_OI = input_weight.contiguous();
    context->save_for_backward({x_NI, weight_OI});
    context->saved_data["sizes"] = x.sizes();
    return in_shape_of(x, product(x_NI, weight_OI.t()));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& x_NI = saved[0];
    const at::Tensor& weight_OI = saved[1];
    const at::Tensor dy_NO = as_rows(grads[0]);
    return {product(dy_NO, weight_OI).view(context->saved_data["sizes"].toIntVector()),
            weight_gradient(dy_NO, x_NI, weight_OI)};
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight) {
  return LinearFunction::apply(x, weight);
}

}  // namespace lmtrain
