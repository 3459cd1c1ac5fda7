// The shapes of models that `model.size` stands for: a family of Llamas from 0.2M parameters, with
// a vocabulary of 2,048, to 7B. The presets of configs/presets are its named members.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"

namespace lmtrain {

// Returns the number of parameters of `model` with `vocab_size` rows of the embedding. A tied head
// and embedding count once.
double count_parameters(const ModelConfig& model, int64_t vocab_size);
// Returns the number of parameters that each token is multiplied with: layers, norms and head, tied
// or not, but not the embedding as such.
double count_multiplied(const ModelConfig& model, int64_t vocab_size);

// Gives `model` the shape of the family's member whose count_parameters() is nearest to
// `parameters`, by their ratio. Sets hidden_size, intermediate_size, num_hidden_layers,
// num_attention_heads and num_key_value_heads, and resets head_dim; the other fields stay.
void set_size(ModelConfig& model, int64_t vocab_size, double parameters);
// Does the same for the member whose count_multiplied() is nearest to `multiplied`.
void set_multiplied(ModelConfig& model, int64_t vocab_size, double multiplied);
// Returns `model` in every shape of the family, the smallest first.
std::vector<ModelConfig> family_of(const ModelConfig& model);

// Returns why llama.cpp cannot compute `model`; empty if it can.
std::string why_not_for_llama_cpp(const ModelConfig& model);

// Returns "1.2M parameters, 4 layers, hidden size 128, vocabulary 512". `model` is resolved.
std::string model_text(const ModelConfig& model, int64_t num_parameters);

}  // namespace lmtrain
