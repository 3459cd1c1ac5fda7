// Clips the flat fp32 gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "config/config.h"
#include "model/parameters.h"

namespace lmtrain {

// A norm is summed in fp64 over blocks, so it does not depend on the thread count. A block has at
// most kNormBlock elements, all of one tensor.
inline constexpr int64_t kNormBlock = 1 << 16;
struct NormBlock {
  int64_t first = 0, size = 0;  // elements of the flat gradient
};
// Returns the blocks of all tensors of a layout, in its order. Each tensor is cut from its first
// element on; its last block may be shorter.
std::vector<NormBlock> norm_blocks(const ParameterLayout& layout);
// Returns the sum of the squares of each block.
std::vector<double> sums_of_squares(const at::Tensor& flat, const std::vector<NormBlock>& blocks);

// Returns the L2 norm of the whole flat gradient; not finite when the gradient is not. On a CPU it
// is the root of the sum of the blocks' sums of squares, in their order, to the bit. Requires zeros
// in the gaps of the layout.
double gradient_norm(const at::Tensor& grad, const ParameterLayout& layout);
// Returns the L2 norm of one tensor, one-dimensional fp32, summed in the same way.
double l2_norm(const at::Tensor& values);

// Returns the factor to multiply the gradient by. For "norm" it is min(1, max / (norm + 1e-6)), as
// torch.nn.utils.clip_grad_norm_ has it, but 1 where the norm is NaN, and `grad` is not changed.
// "value" clamps `grad` to [-max, max] in place and returns 1; "none" returns 1.
double clip_gradient(const ClipConfig& config, const at::Tensor& grad, double norm);

}  // namespace lmtrain
