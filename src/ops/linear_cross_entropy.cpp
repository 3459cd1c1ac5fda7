#include <torch/csrc/autograd/custom_function.h>

#include "device/dispatch.h"
#include "device/torch_headers.h"
#include "kernels/cpu/gemm.h"
#include "ops/accumulate.h"
#include "ops/cross_entropy.h"
#include "ops/matmul.h"
#include "ops/operators.h"

namespace lmtrain {
namespace {

// [rows, columns], uninitialised. On a CPU rows that would lie kCacheAliasStride lie a line further
// apart: products read their columns.
at::Tensor logits_like(const at::Tensor& x, int64_t rows, int64_t columns) {
  constexpr int64_t kLine = 64;
  const auto size = static_cast<int64_t>(x.element_size());
  const bool far_apart = x.is_cpu() && columns * size % kCacheAliasStride == 0;
  const int64_t stride = columns + (far_apart ? kLine / size : 0);
  return at::empty({rows, stride}, x.options()).narrow(1, 0, columns);
}

// The losses of all positions, chunk by chunk; f(first position, x, logits) of each, where the
// logits are their gradient if there is a `grad_scale`.
template <class F>
at::Tensor by_chunks(const at::Tensor& x_ND, const at::Tensor& weight_VD, const at::Tensor& targets,
                     const std::optional<at::Tensor>& grad_scale, double z_loss, int64_t chunk,
                     const F& f) {
  const int64_t positions = x_ND.size(0);
  at::Tensor losses = at::empty({positions}, x_ND.options().dtype(at::kFloat));
  for (int64_t first = 0; first < positions; first += chunk) {
    const int64_t count = std::min(chunk, positions - first);
    const at::Tensor x = x_ND.narrow(0, first, count);
    const at::Tensor logits = logits_like(x, count, weight_VD.size(0));
    linear_cross_entropy_rows(x, weight_VD, logits, targets.narrow(0, first, count),
                              losses.narrow(0, first, count), grad_scale, z_loss);
    f(first, x, logits);
  }
  return losses;
}

// The same without a gradient.
at::Tensor losses_alone(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                        int64_t chunk) {
  return by_chunks(x.contiguous(), weight.contiguous(), targets.contiguous(), {}, 0.0, chunk,
                   [](int64_t, const at::Tensor&, const at::Tensor&) {});
}

// The gradients are computed where the logits are, in the forward.
class LinearCrossEntropyFunction : public torch::autograd::Function<LinearCrossEntropyFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& input_weight, const at::Tensor& targets,
                            const at::Tensor& scale, double z_loss, int64_t chunk) {
    const at::Tensor x_ND = input.contiguous();
    const at::Tensor weight_VD = input_weight.contiguous();
    at::Tensor dx, dw, sum;
    const at::Tensor losses =
        by_chunks(x_ND, weight_VD, targets.contiguous(), scale, z_loss, chunk,
                  [&](int64_t first, const at::Tensor& x, const at::Tensor& d_logits) {
                    const at::Tensor chunk_dx = product(d_logits, weight_VD);
                    const at::Tensor chunk_dw = product(d_logits.t(), x);
                    if (x.size(0) == x_ND.size(0)) {
                      dx = chunk_dx;
                      dw = chunk_dw;
                      return;
                    }
                    if (first == 0) {
                      dx = at::empty_like(x_ND);
                      sum = at::empty({weight_VD.numel()}, weight_VD.options().dtype(at::kFloat));
                    }
                    dx.narrow(0, first, x.size(0)).copy_(chunk_dx);
                    accumulate(chunk_dw, sum, /*first=*/first == 0);
                  });
    if (sum.defined()) dw = sum.view_as(weight_VD).to(weight_VD.scalar_type());
    context->saved_data["dx"] = dx;
    context->saved_data["dw"] = dw;
    return sum_row_losses(losses, scale);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    return {scaled_by(context->saved_data["dx"].toTensor(), grads[0]),
            scaled_by(context->saved_data["dw"].toTensor(), grads[0]),
            at::Tensor(),
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

// Chunks cost time: products are smaller, and the weight's gradient is summed. So there is one,
// unless its logits were too large a part of the memory of a machine.
int64_t linear_cross_entropy_chunk(const at::Device& device, at::ScalarType dtype, int64_t vocab) {
  const auto bytes = vocab * static_cast<int64_t>(c10::elementSize(dtype));
  const int64_t limit = device.is_cpu() ? int64_t{256} << 20 : int64_t{4} << 30;
  return std::max<int64_t>(1024, limit / bytes);
}

at::Tensor linear_cross_entropy_reference(const at::Tensor& x, const at::Tensor& weight,
                                          const at::Tensor& targets, const at::Tensor& scale,
                                          double z_loss) {
  return cross_entropy_reference(at::linear(x, weight), targets, scale, z_loss);
}

at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& targets, const at::Tensor& scale, double z_loss,
                                std::optional<int64_t> given_chunk) {
  if (!has_kernel(x)) return cross_entropy(at::linear(x, weight), targets, scale, z_loss);
  const int64_t chunk =
      given_chunk.value_or(linear_cross_entropy_chunk(x.device(), x.scalar_type(), weight.size(0)));
  if (at::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad())) {
    return LinearCrossEntropyFunction::apply(x, weight, targets, scale, z_loss, chunk);
  }
  return sum_row_losses(losses_alone(x, weight, targets, chunk), scale);
}

std::tuple<at::Tensor, at::Tensor> linear_cross_entropies(const at::Tensor& x,
                                                          const at::Tensor& weight,
                                                          const at::Tensor& targets,
                                                          const at::Tensor& scale) {
  const at::NoGradGuard no_grad;
  if (!has_kernel(x)) {
    const at::Tensor logits = at::linear(x, weight);
    return {cross_entropy(logits, targets, scale, 0.0), cross_entropies_reference(logits, targets)};
  }
  const at::Tensor losses = losses_alone(
      x, weight, targets, linear_cross_entropy_chunk(x.device(), x.scalar_type(), weight.size(0)));
  return {sum_row_losses(losses, scale), losses};
}

}  // namespace lmtrain
