// Gradient clipping over the flat fp32 gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include "config/config.h"

namespace lmtrain {

// The global L2 norm, summed in fp64 over fixed blocks: independent of the thread count. Not finite
// when the gradient is not.
double gradient_norm(const at::Tensor& grad);

// The factor to multiply the gradient by: min(1, max / (norm + 1e-6)) for "norm", as
// torch.nn.utils.clip_grad_norm_; 1 for "none" and for "value", which clamps `grad` to [-max, max]
// in place.
double clip_gradient(const ClipConfig& config, const at::Tensor& grad, double norm);

}  // namespace lmtrain
