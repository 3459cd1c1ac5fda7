// Computes the norm of the flat fp32 gradient, and clips the gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "config/config.h"
#include "device/element_range.h"
#include "model/parameters.h"

namespace lmtrain {

// A norm is summed in fp64, block by block, so it does not depend on the number of threads. A block
// has at most kNormBlock elements, all of one tensor.
inline constexpr int64_t kNormBlock = 1 << 16;
// Returns the blocks of all tensors of a layout, in its order. Only the last block of a tensor may
// have fewer than kNormBlock elements.
std::vector<ElementRange> norm_blocks(const ParameterLayout& layout);
// Returns the sum of squares of each block of `flat`, in the order of `blocks`.
std::vector<double> sums_of_squares(const at::Tensor& flat,
                                    const std::vector<ElementRange>& blocks);

// Returns the L2 norm of the whole flat gradient; not finite if the gradient is not. On a CPU it
// is, to the bit, the root of the sums_of_squares() of all norm_blocks(), added in their order.
// Requires zeros in the gaps of the layout.
double gradient_norm(const at::Tensor& grad, const ParameterLayout& layout);
// Returns the L2 norm of one tensor, one-dimensional fp32, summed in the same way.
double l2_norm(const at::Tensor& values);

// Returns the factor by which the update must multiply the gradient. "norm" returns min(1, max /
// (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ has it, but 1 for a NaN norm; it leaves `grad`
// as it is. "value" clamps `grad` to [-max, max] in place and returns 1. "none" returns 1.
double clip_gradient(const ClipConfig& config, const at::Tensor& grad, double norm);

}  // namespace lmtrain
