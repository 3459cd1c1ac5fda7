// The shapes of models that `model.size` stands for: a family of Llamas from 0.3M to 7B parameters.
// The presets of configs/presets are its named members.
#pragma once

#include <cstdint>
#include <vector>

#include "config/config.h"

namespace lmtrain {

// Returns the parameters of `model` with `vocab_size` rows of the embedding: all matrices and
// norms, a tied head counted once.
double count_parameters(const ModelConfig& model, int64_t vocab_size);
// Returns the parameters that every token multiplies: the same without the embedding, whose rows
// are only read, and with the head, tied or not.
double count_multiplied(const ModelConfig& model, int64_t vocab_size);

// Sets hidden_size, intermediate_size, num_hidden_layers, num_attention_heads and
// num_key_value_heads of `model` to the member of the family whose count_parameters is nearest to
// `parameters`, by their ratio. tie_word_embeddings and model_type are read; head_dim is reset.
void set_size(ModelConfig& model, int64_t vocab_size, double parameters);
// Sets the same to the member whose count_multiplied is nearest to `multiplied`, by their ratio.
void set_multiplied(ModelConfig& model, int64_t vocab_size, double multiplied);
// Returns `model` in every shape of the family, the smallest first.
std::vector<ModelConfig> family_of(const ModelConfig& model);

}  // namespace lmtrain
