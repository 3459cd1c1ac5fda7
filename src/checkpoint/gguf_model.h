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

// Returns the GGUF name of a tensor, "blk.0.attn_q.weight", by its Hugging Face name. Throws
// Error(kInternal) for a tensor that none of these models has.
std::string gguf_tensor_name(std::string_view hf_name);

// Returns the heads of a tensor whose rows llama.cpp wants in another order: of q_proj and k_proj
// of a Llama or Mistral, which it rotates in pairs of neighbours. 0: the rows keep their order.
int64_t paired_heads(const ModelConfig& model, std::string_view hf_name);

// Reorders the rows of a matrix `values` [rows, columns], whose rows are `heads` heads of an even
// size: in each head row r becomes row 2r, and row r + half becomes row 2r + 1.
std::vector<float> with_paired_rows(std::span<const float> values, int64_t heads, int64_t columns);

// Returns the divisor of the frequency of each rotated pair, [head size / 2], for rope_type
// "llama3"; empty for any other.
std::vector<float> gguf_rope_factors(const ModelConfig& model);

// Returns a tensor's type in a file of `type`: a vector is fp32, and a matrix whose rows are no
// whole blocks of Q8_0 is fp16 instead.
GgufType gguf_type_of(const std::vector<int64_t>& shape, GgufType type);

inline constexpr const char* kGgufRopeFactors = "rope_freqs.weight";  // the tensor of the factors

struct GgufFacts {
  std::string name;
  GgufType type = GgufType::kF32;
  int64_t parameters = 0;
  int64_t vocab_size = 0;
  int64_t max_length = 0;  // tokens
  CardConfig card{};       // license and languages, if given
};
// Adds the keys "general.*" and the keys of the architecture. Throws Error(kConfig) for a rope_type
// that llama.cpp does not compute: llama3 in a Qwen, and yarn with other than the default keys.
void add_gguf_model(const ModelConfig& model, const GgufFacts& facts, GgufMetadata& metadata);

// Returns a number of parameters as names of models have it: "363K", "1.2B".
std::string size_label(int64_t parameters);

}  // namespace lmtrain
