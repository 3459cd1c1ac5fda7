// The layout of attention in segments: all positions of a batch one after another. B rows, H heads,
// T length, E head size, N = BT positions.
#pragma once

#include <ATen/ATen.h>

namespace lmtrain {

// x_BHTE as x_NHE; qkv_rope hands its heads out so that this copies nothing.
inline at::Tensor flat_positions(const at::Tensor& x_BHTE) {
  return x_BHTE.transpose(1, 2).contiguous().flatten(0, 1);
}

// And back: x_NHE as x_BHTE, a view.
inline at::Tensor heads_first(const at::Tensor& x_NHE, int64_t batch) {
  return x_NHE.unflatten(0, {batch, -1}).transpose(1, 2);
}

}  // namespace lmtrain
