// Models that several tests take, without a reference.
#pragma once

#include "config/config.h"

namespace lmtrain::testing {

// Large enough that every operator shares its work among threads; widths as fp8 needs them.
inline ModelConfig two_layer_model() {
  ModelConfig config;
  config.hidden_size = 128;
  config.intermediate_size = 352;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  return config;
}

}  // namespace lmtrain::testing
