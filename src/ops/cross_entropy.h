// Computes losses and gradients of logits without autograd, for cross_entropy and
// linear_cross_entropy of operators.h. All tensors must be on one device, have dtypes that have a
// kernel (device/dispatch.h), and be contiguous; of logits on a CPU only each row need be.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace lmtrain {

// Writes to losses_N (fp32) the cross-entropy in nats of each row of logits_NV and its target in
// targets_N (int64); 0 for a negative target. With a `grad_scale`, a scalar in fp64 on the same
// device, the logits are overwritten by the gradient of grad_scale times the sum of the losses and
// of the z-loss (operators.h). On a CPU a target at or above V throws c10::Error; on a GPU its loss
// and gradient are NaN, since asking would wait for the GPU.
void cross_entropy_rows(const at::Tensor& logits, const at::Tensor& targets,
                        const at::Tensor& losses, const std::optional<at::Tensor>& grad_scale,
                        double z_loss);
// Does the same for the logits x_ND weight_VD^T, which it writes to logits_NV; on a CPU, if
// possible, some rows at a time while a thread has them in its cache.
void linear_cross_entropy_rows(const at::Tensor& x, const at::Tensor& weight,
                               const at::Tensor& logits, const at::Tensor& targets,
                               const at::Tensor& losses,
                               const std::optional<at::Tensor>& grad_scale, double z_loss);

// Returns the sum of `losses` times `scale`, a scalar in fp64, as a scalar in fp32. The sum is
// taken in fp64 and in a fixed order.
at::Tensor sum_row_losses(const at::Tensor& losses, const at::Tensor& scale);

// Returns the losses that cross_entropy_reference sums up, losses_N in fp32.
at::Tensor cross_entropies_reference(const at::Tensor& logits, const at::Tensor& targets);

// Multiplies `gradient`, which is contiguous, in place by the fp32 scalar `d_loss` and returns it.
at::Tensor scaled_by(const at::Tensor& gradient, const at::Tensor& d_loss);

}  // namespace lmtrain
