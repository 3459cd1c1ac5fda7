// Says what a GGUF file calls the parts of a Llama, Qwen3, Qwen2 or Mistral (llama.cpp,
// gguf-py/gguf/constants.py and convert_hf_to_gguf.py): names of tensors, keys of the shape, and
// the order of the rows of queries and keys. A Mistral is written as a Llama, which llama.cpp
// computes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "formats/gguf.h"

namespace lmtrain {

// Returns the GGUF name of a tensor, "blk.0.attn_q.weight", for its Hugging Face name. Throws
// Error(kInternal) for a tensor that no such model has.
std::string gguf_tensor_name(std::string_view hf_name);

// Returns how many heads the rows of a tensor have that are rotated in pairs of neighbours: those
// of q_proj and k_proj of a Llama or Mistral. 0: the rows stay where they are. A Qwen rotates
// halves.
int64_t paired_heads(const ModelConfig& model, std::string_view hf_name);

// Returns the values of a matrix whose rows are `heads` heads of an even size, with row r and row r
// + half of each head as neighbours, 2r and 2r + 1. Rotating neighbours in the result is rotating
// halves before.
std::vector<float> with_paired_rows(std::span<const float> values, int64_t heads, int64_t columns);

// Returns by what llama.cpp divides the frequency of each pair, as Llama 3's scaling of positions
// has it; empty without scaling.
std::vector<float> gguf_rope_factors(const ModelConfig& model);

// Returns a tensor's type in a file of `type`: vectors are fp32, and a matrix whose rows are no
// whole blocks is fp16 instead of Q8_0.
GgufType gguf_type_of(const std::vector<int64_t>& shape, GgufType type);

inline constexpr const char* kGgufRopeFactors = "rope_freqs.weight";  // the tensor of the factors

struct GgufFacts {
  std::string name;
  GgufType type = GgufType::kF32;
  int64_t parameters = 0;
  int64_t vocab_size = 0;
  int64_t max_length = 0;  // tokens
  CardConfig card{};       // what it has is written
};
// Adds the keys "general.*" and the keys of the architecture. Throws Error(kConfig) for scaled
// positions that llama.cpp does not compute: llama3 in a Qwen, and a yarn whose keys are not the
// defaults.
void add_gguf_model(const ModelConfig& model, const GgufFacts& facts, GgufMetadata& metadata);

// Returns parameters in at least two digits, as names of models have them: "363K", "1.2B".
std::string size_label(int64_t parameters);

}  // namespace lmtrain
