// Sums the gradients of parts of a batch in fp32.
#pragma once

#include <ATen/core/Tensor.h>

namespace lmtrain {

// Adds `part`, of any shape and floating-point dtype, to `sum`, which is fp32, flat and contiguous
// with as many elements, on the same device. If `first`, overwrites `sum` by it.
void accumulate(const at::Tensor& part, const at::Tensor& sum, bool first);

}  // namespace lmtrain
