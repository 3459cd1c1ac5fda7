// Writes a Llama as one TorchScript file of ATen's operators alone, which
// torch.jit.load opens without lmtrain, in Python and in C++.
//
// forward(ids: int64 [B, T]) returns fp32 logits [B, T, V], T at most max_length, on the device
// that the module was moved to. The parameters have the names of the model's source: embed_tokens,
// lm_head (not of a tied head), norm, and layers.N.qkv_proj, o_proj, gate_up_proj, down_proj,
// input_layernorm, post_attention_layernorm and, of a Qwen3, q_norm, k_norm, of a Qwen2, qkv_bias.
#pragma once

#include <cstdint>
#include <filesystem>

#include "config/config.h"
#include "formats/safetensors.h"
#include "model/parameters.h"

namespace lmtrain {

// Writes the masters, in kF32, kBF16 or kF16 as model/round_weights.h rounds them, and syncs the
// file. A file that is there is overwritten. Throws the errors of rounded_weights, and Error(kIo).
void write_torchscript(const std::filesystem::path& file, const ModelConfig& model,
                       const Parameters& parameters, int64_t max_length, DType dtype);

}  // namespace lmtrain
