#include "ops/cross_entropy.h"

#include <torch/csrc/autograd/custom_function.h>

#include "device/dispatch.h"
#include "device/torch_headers.h"
#include "device/work_queue.h"
#include "ops/matmul.h"
#include "ops/operators.h"

namespace lmtrain {
namespace {

constexpr int64_t kIgnored = -100;  // a label of at::cross_entropy_loss

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

}  // namespace

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

at::Tensor sum_row_losses(const at::Tensor& losses, const at::Tensor& scale) {
  if (losses.is_cuda()) return losses.sum(at::kDouble).mul_(scale).to(at::kFloat);
  const float* rows = elements<float>(losses);
  return at::scalar_tensor(
      std::accumulate(rows, rows + losses.numel(), 0.0) * *elements<double>(scale),
      losses.options());
}

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

at::Tensor cross_entropies_reference(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor labels = targets.masked_fill(targets < 0, kIgnored);
  return at::cross_entropy_loss(logits.to(at::kFloat), labels, {}, at::Reduction::None, kIgnored);
}

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

}  // namespace lmtrain
