// Writes a Llama as one TorchScript file that uses only ATen's operators, so torch.jit.load opens
// it without lmtrain, in Python and in C++.
//
// forward(ids: int64 [B, T]) returns fp32 logits [B, T, V], T at most max_length, on the device of
// the module. The parameters have the names of the model's source: embed_tokens, lm_head (unless
// tied), norm, and layers.N.qkv_proj, o_proj, gate_up_proj, down_proj, input_layernorm,
// post_attention_layernorm; in a Qwen3 also q_norm, k_norm; in a Qwen2 qkv_bias.
#pragma once

#include <cstdint>
#include <filesystem>

#include "config/config.h"
#include "formats/safetensors.h"
#include "model/parameters.h"

namespace lmtrain {

// Writes the masters as rounded_weights() gives them in `dtype` (kF32, kBF16 or kF16), and syncs
// the file. Overwrites a file that is there. Throws the errors of rounded_weights(), and
// Error(kIo).
void write_torchscript(const std::filesystem::path& file, const ModelConfig& model,
                       const Parameters& parameters, int64_t max_length, DType dtype);

}  // namespace lmtrain
