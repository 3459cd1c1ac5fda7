// The parts of lm.cross_entropy and lm.linear_cross_entropy: losses and gradients of logits,
// without autograd. All tensors contiguous (of logits on a CPU each row), on one device; dtypes
// that have a kernel (device/dispatch.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace lmtrain {

// Writes losses_N (fp32), the cross-entropy in nats of each row of logits_NV and of targets_N
// (int64); 0 for a negative target. With a `grad_scale`, a scalar in fp64, the logits are
// overwritten by their gradient, as operators.h says. On a CPU a target at or above V throws
// c10::Error; on a GPU its loss is NaN, since asking would wait for the GPU.
void cross_entropy_rows(const at::Tensor& logits, const at::Tensor& targets,
                        const at::Tensor& losses, const std::optional<at::Tensor>& grad_scale,
                        double z_loss);
// The same of the logits x_ND weight_VD^T, which are written to logits_NV; on a CPU, if possible,
// some rows at a time while a thread has them in its cache.
void linear_cross_entropy_rows(const at::Tensor& x, const at::Tensor& weight,
                               const at::Tensor& logits, const at::Tensor& targets,
                               const at::Tensor& losses,
                               const std::optional<at::Tensor>& grad_scale, double z_loss);

// The sum of `losses`, taken in fp64 and in a fixed order, times `scale`, a scalar in fp64. Returns
// a scalar in fp32.
at::Tensor sum_row_losses(const at::Tensor& losses, const at::Tensor& scale);

// Multiplies `gradient` in place by the scalar `d_loss` and returns it.
at::Tensor scaled_by(const at::Tensor& gradient, const at::Tensor& d_loss);

}  // namespace lmtrain
