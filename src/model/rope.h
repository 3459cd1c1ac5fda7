// Computes cosines and sines of rotary position embeddings in fp32, as transformers does
// (modeling_rope_utils): the angle of pair r at position t is t rope_theta^(-2r/E). Scalings divide
// these frequencies by a factor: "linear" all of them (Chen et al., 2306.15595), "llama3" and
// "yarn" (Peng et al., 2309.00071) the slow ones. "yarn" also multiplies cosines and sines by a
// factor, which scales the logits of attention by its square.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "config/config.h"

namespace lmtrain {

// Returns cos_TR and sin_TR, fp32, for positions 0 .. length-1; T = length, R = E/2, E = head size.
std::pair<at::Tensor, at::Tensor> rope_tables(const ModelConfig& model, int64_t length,
                                              at::Device device);

}  // namespace lmtrain
