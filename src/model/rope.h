// Computes the angles of rotary position embeddings in fp32, as transformers does: theta_r =
// rope_theta^(-2r/E), and Llama 3's scaling of the slow frequencies (transformers,
// modeling_rope_utils, rope_type "llama3").
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "config/config.h"

namespace lmtrain {

// Returns cos_TR and sin_TR, fp32, for positions 0 .. length-1; T = length, R = E/2, E = head size.
std::pair<at::Tensor, at::Tensor> rope_tables(const ModelConfig& model, int64_t length,
                                              at::Device device);

}  // namespace lmtrain
