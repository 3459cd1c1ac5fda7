// Gradients of parts, summed in fp32.
#pragma once

#include <ATen/core/Tensor.h>

namespace lmtrain {

// Adds `part`, of any shape and dtype, to `sum`, fp32 and flat with as many elements; if `first`,
// overwrites `sum` by it.
void accumulate(const at::Tensor& part, const at::Tensor& sum, bool first);

}  // namespace lmtrain
