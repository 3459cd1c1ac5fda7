#include "model/activation_checkpointing.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "device/torch_headers.h"

namespace lmtrain {
namespace {

// The layer in a form that saved_data can carry.
struct SavedLayer : torch::CustomClassHolder {
  explicit SavedLayer(LayerFunction layer_) : layer(std::move(layer_)) {}
  LayerFunction layer;
};

class RecomputedFunction : public torch::autograd::Function<RecomputedFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const LayerFunction& layer,
                            const at::Tensor& x, at::TensorList weights) {
    torch::autograd::variable_list saved = {x};
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(saved);
    context->saved_data["layer"] =
        c10::IValue::make_capsule(c10::make_intrusive<SavedLayer>(layer));
    return layer(x);  // gradients are not recorded in here
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    RECORD_USER_SCOPE("recompute");
    torch::autograd::variable_list inputs = context->get_saved_variables();
    inputs[0] = inputs[0].detach().set_requires_grad(true);
    const auto saved =
        c10::static_intrusive_pointer_cast<SavedLayer>(context->saved_data["layer"].toCapsule());
    const at::AutoGradMode record(true);
    const at::Tensor y = saved->layer(inputs[0]);
    // A weight whose gradient was added elsewhere (ops/weight_gradient.h) has none here.
    torch::autograd::variable_list gradients =
        torch::autograd::grad({y}, inputs, {grads[0]}, std::nullopt, /*create_graph=*/false,
                              /*allow_unused=*/true);
    gradients.insert(gradients.begin(), at::Tensor());  // of `layer`
    return gradients;
  }
};

}  // namespace

at::Tensor checkpointed(const LayerFunction& layer, const at::Tensor& x, at::TensorList weights) {
  return RecomputedFunction::apply(layer, x, weights);
}

}  // namespace lmtrain
