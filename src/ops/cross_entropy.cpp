// cross_entropy of logits, and linear_cross_entropy of the model's output and its head, whose
// logits exist chunk by chunk. Both compute the gradient of the logits in the forward, in their
// place.
#include <torch/csrc/autograd/custom_function.h>

#include "device/dispatch.h"
#include "device/torch_headers.h"
#include "device/work_queue.h"
#include "kernels/cpu/gemm.h"
#include "ops/matmul.h"
#include "ops/operators.h"
#include "ops/weight_gradient.h"

namespace lmtrain {
namespace {

constexpr int64_t kIgnored = -100;  // a label of at::cross_entropy_loss

// On a CPU, of rows [begin, end).
template <class T>
class RowLosses {
 public:
  RowLosses(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& losses,
            const std::optional<at::Tensor>& grad_scale, double z_loss)
      : logits_(logits),
        targets_(elements<int64_t>(targets)),
        losses_(elements<float>(losses)),
        wants_gradient_(grad_scale.has_value()),
        scale_(grad_scale ? static_cast<float>(*elements<double>(*grad_scale)) : 0.0F),
        z_loss_(static_cast<float>(z_loss)) {
    const int64_t vocab = logits.size(1);
    for (const int64_t* target = targets_; target != targets_ + logits.size(0); ++target) {
      TORCH_CHECK_INDEX(*target < vocab, "cross_entropy: target ", *target, " in a vocabulary of ",
                        vocab);
    }
  }

  void operator()(int64_t begin, int64_t end) const {
    const int64_t vocab = logits_.size(1);
    const bool needs_scratch = wants_gradient_ && !std::is_same_v<T, float>;
    const at::Tensor scratch = at::detail::empty_cpu({needs_scratch ? vocab : 0}, at::kFloat);
    for (int64_t row = begin; row < end; ++row) {
      T* const logits = elements<T>(logits_) + row * logits_.stride(0);
      losses_[row] = cpu_kernels<T>().cross_entropy(logits, vocab, targets_[row], scale_, z_loss_,
                                                    elements<float>(scratch));
      // 0 is no gradient wanted to the kernel.
      if (wants_gradient_ && scale_ == 0) std::fill_n(logits, vocab, T{});
    }
  }

 private:
  at::Tensor logits_;
  const int64_t* targets_;
  float* losses_;
  bool wants_gradient_;
  float scale_, z_loss_;
};

// Writes to losses_N (fp32) the cross-entropy in nats of each row of logits_NV and its target in
// targets_N (int64); 0 for a negative target. With a `grad_scale`, a scalar in fp64 on the same
// device, the logits are overwritten by the gradient of grad_scale times the sum of the losses and
// of the z-loss. Logits on a CPU need be contiguous in each row only. On a CPU a target at or above
// V throws c10::Error; on a GPU its loss and gradient are NaN, since asking would wait for the GPU.
void cross_entropy_rows(const at::Tensor& logits, const at::Tensor& targets,
                        const at::Tensor& losses, const std::optional<at::Tensor>& grad_scale,
                        double z_loss) {
  on_cpu(logits, [&]<class T>(T) {
    const RowLosses<T> row_losses(logits, targets, losses, grad_scale, z_loss);
    parallel_for_queued(logits.size(0), grain_rows(logits.size(1)), row_losses);
  });
  on_cuda(logits, [&](const auto& call) {
    cuda::cross_entropy(call, logits.data_ptr(), elements<int64_t>(targets),
                        elements<float>(losses), logits.size(0), logits.size(1),
                        grad_scale ? elements<double>(*grad_scale) : nullptr,
                        static_cast<float>(z_loss));
  });
}

// Does the same for the logits x_ND weight_VD^T, which it writes to logits_NV; on a CPU, if
// possible, some rows at a time while a thread has them in its cache.
void linear_cross_entropy_rows(const at::Tensor& x, const at::Tensor& weight,
                               const at::Tensor& logits, const at::Tensor& targets,
                               const at::Tensor& losses,
                               const std::optional<at::Tensor>& grad_scale, double z_loss) {
  if (!logits.is_cpu()) {
    product_into(x, weight.t(), logits);
    cross_entropy_rows(logits, targets, losses, grad_scale, z_loss);
    return;
  }
  on_cpu(logits, [&]<class T>(T) {
    product_into(x, weight.t(), logits, RowLosses<T>(logits, targets, losses, grad_scale, z_loss));
  });
}

// Returns the sum of `losses` times `scale`, a scalar in fp64, as a scalar in fp32. The sum is
// taken in fp64 and in a fixed order.
at::Tensor sum_row_losses(const at::Tensor& losses, const at::Tensor& scale) {
  if (losses.is_cuda()) return losses.sum(at::kDouble).mul_(scale).to(at::kFloat);
  const float* rows = elements<float>(losses);
  return at::scalar_tensor(
      std::accumulate(rows, rows + losses.numel(), 0.0) * *elements<double>(scale),
      losses.options());
}

// Multiplies `gradient`, which is contiguous, in place by the fp32 scalar `d_loss` and returns it.
at::Tensor scaled_by(const at::Tensor& gradient, const at::Tensor& d_loss) {
  on_cpu(gradient, [&]<class T>(T) {
    const double factor = d_loss.item<double>();
    if (factor != 1.0) gradient.mul_(factor);
  });
  on_cuda(gradient, [&](const auto& call) {
    const at::Tensor factor = d_loss.contiguous();
    cuda::scale_by(call, gradient.data_ptr(), gradient.numel(), elements<float>(factor));
  });
  return gradient;
}

at::Tensor sum_of_rows(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& scale,
                       const std::optional<at::Tensor>& grad_scale, double z_loss) {
  const at::Tensor losses = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
  cross_entropy_rows(logits, targets, losses, grad_scale, z_loss);
  return sum_row_losses(losses, scale);
}

class CrossEntropyFunction : public torch::autograd::Function<CrossEntropyFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets, const at::Tensor& scale, double z_loss) {
    at::Tensor loss = sum_of_rows(logits, targets, scale, scale, z_loss);
    context->saved_data["d_logits"] = logits.detach();
    return loss;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    return {scaled_by(context->saved_data["d_logits"].toTensor(), grads[0]), at::Tensor(),
            at::Tensor(), at::Tensor()};
  }
};

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
    const at::Tensor dx = at::empty_like(x_ND);
    at::Tensor dw, sum_VD;
    const at::Tensor losses =
        by_chunks(x_ND, weight_VD, targets.contiguous(), scale, z_loss, chunk,
                  [&](int64_t first, const at::Tensor& x, const at::Tensor& d_logits) {
                    product_into(d_logits, weight_VD, dx.narrow(0, first, x.size(0)));
                    if (x.size(0) == x_ND.size(0)) {
                      dw = product(d_logits.t(), x);
                      return;
                    }
                    if (first == 0)
                      sum_VD = at::empty(weight_VD.sizes(), weight_VD.options().dtype(at::kFloat));
                    add_product(d_logits.t(), x, sum_VD, /*first=*/first == 0);
                  });
    if (sum_VD.defined()) dw = sum_VD.to(weight_VD.scalar_type());
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

at::Tensor cross_entropy_reference(const at::Tensor& logits, const at::Tensor& targets,
                                   const at::Tensor& scale, double z_loss) {
  const at::ScalarType accurate = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor wide = logits.to(accurate);
  const at::Tensor masked = targets < 0;
  const at::Tensor labels = targets.masked_fill(masked, kIgnored);
  const at::Tensor factor = scale.to(accurate);
  at::Tensor nats = at::cross_entropy_loss(wide, labels, {}, at::Reduction::Sum, kIgnored) * factor;
  if (z_loss == 0) return nats;
  // Zeros instead of the masked rows: what stands there, even NaN, has no gradient either.
  const at::Tensor counted = wide.masked_fill(masked.unsqueeze(-1), 0);
  const at::Tensor squares = counted.logsumexp(-1).square().masked_fill(masked, 0);
  return nats + squares.sum() * (scale * z_loss).to(accurate);
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                         const at::Tensor& scale, double z_loss) {
  const bool wants_gradient = at::GradMode::is_enabled() && logits.requires_grad();
  if (has_kernel(logits)) {
    return wants_gradient ? CrossEntropyFunction::apply(logits.contiguous(), targets.contiguous(),
                                                        scale, z_loss)
                          : sum_of_rows(logits.contiguous(), targets.contiguous(), scale, {}, 0.0);
  }
  if (!wants_gradient || z_loss == 0) return cross_entropy_reference(logits, targets, scale, 0.0);
  // The value of the one, the gradient of both.
  const at::Tensor both = cross_entropy_reference(logits, targets, scale, z_loss);
  const at::Tensor nats = cross_entropy_reference(logits.detach(), targets, scale, 0.0);
  return nats + (both - both.detach());
}

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

at::Tensor linear_cross_entropies(const at::Tensor& x, const at::Tensor& weight,
                                  const at::Tensor& targets) {
  const at::NoGradGuard no_grad;
  if (!has_kernel(x)) {
    const at::Tensor labels = targets.masked_fill(targets < 0, kIgnored);
    return at::cross_entropy_loss(at::linear(x, weight).to(at::kFloat), labels, {},
                                  at::Reduction::None, kIgnored);
  }
  return losses_alone(x, weight, targets,
                      linear_cross_entropy_chunk(x.device(), x.scalar_type(), weight.size(0)));
}

}  // namespace lmtrain
