// Clips the flat fp32 gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "config/config.h"

namespace lmtrain {

// Returns the L2 norm of the whole gradient. It is summed in fp64 over fixed blocks, so it does not
// depend on the thread count. It is not finite when the gradient is not.
double gradient_norm(const at::Tensor& grad);

// The elements of a block of that sum.
inline constexpr int64_t kNormBlock = 1 << 16;
// Returns the sums of the squares of the blocks `first_block` to `last_block`, the latter left out.
// Block b holds the elements from b * kNormBlock on; the last block of the gradient may be shorter.
// On a CPU gradient_norm() is the root of the sum of these, in the order of the blocks, to the bit.
std::vector<double> block_sums_of_squares(const at::Tensor& grad, int64_t first_block,
                                          int64_t last_block);

// Returns the factor to multiply the gradient by. For "norm" it is min(1, max / (norm + 1e-6)), as
// torch.nn.utils.clip_grad_norm_ has it, but 1 where the norm is NaN, and `grad` is not changed.
// "value" clamps `grad` to [-max, max] in place and returns 1; "none" returns 1.
double clip_gradient(const ClipConfig& config, const at::Tensor& grad, double norm);

}  // namespace lmtrain
