// Rounds fp32 weights to a type of 16 bits: to the nearest, ties to even, subnormal numbers too.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "config/enums.h"
#include "formats/safetensors.h"

namespace lmtrain {

// Returns libtorch's type of weights in kF32, kBF16 or kF16; nothing for another `dtype`.
std::optional<at::ScalarType> weight_type(DType dtype);

// Returns `values`, contiguous fp32 in host memory, rounded to `dtype`: kF32 (the same tensor),
// kBF16 or kF16. Throws Error(kNumeric) that names `tensor` for a finite number that is beyond the
// largest of `dtype`.
at::Tensor rounded_weights(const at::Tensor& values, DType dtype, const std::string& tensor);

// Returns the bytes of a checkpoint's weights, for `masters` bytes of fp32 masters: the masters
// and, in bf16, also the rounded weights.
int64_t stored_weight_bytes(int64_t masters, CheckpointDType dtype);

}  // namespace lmtrain
