// Rounds fp32 weights to a type of 16 bits, exactly: to the nearest, and to even where two are as
// near, subnormal numbers too.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "config/enums.h"
#include "formats/safetensors.h"

namespace lmtrain {

// Returns `values`, contiguous fp32 in host memory, in `dtype`, kF32, kBF16 or kF16; in kF32 the
// same tensor. Throws Error(kNumeric) that names `tensor` for a number that is finite and beyond
// the largest of `dtype`.
at::Tensor rounded_weights(const at::Tensor& values, DType dtype, const std::string& tensor);

// Returns how many bytes the weights of a checkpoint take, of so many bytes of fp32 masters: the
// masters, and in bf16 the rounded weights beside them.
int64_t stored_weight_bytes(int64_t masters, CheckpointDType dtype);

}  // namespace lmtrain
