// Computes the angles of rotary position embeddings in fp32, as transformers does: theta_r =
// rope_theta^(-2r/E), and its scalings (transformers, modeling_rope_utils): "linear" divides all
// frequencies (Chen et al., 2306.15595), "llama3" the slow ones, and "yarn" (Peng et al.,
// 2309.00071) the slow ones, and multiplies cosines and sines by a factor, which scales logits of
// attention by its square.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "config/config.h"

namespace lmtrain {

// Returns cos_TR and sin_TR, fp32, for positions 0 .. length-1; T = length, R = E/2, E = head size.
std::pair<at::Tensor, at::Tensor> rope_tables(const ModelConfig& model, int64_t length,
                                              at::Device device);

}  // namespace lmtrain
