// A random Llama of a few thousand parameters, and documents for it.
#pragma once

#include <random>
#include <vector>

#include "base/file.h"
#include "base/support.h"
#include "device/torch_headers.h"
#include "formats/token_shard.h"
#include "model/llama.h"

namespace lmtrain::testing {

inline constexpr int64_t kTinyVocabulary = 50;
inline constexpr int64_t kTinyLength = 16;

inline ModelConfig tiny_model_config() {
  ModelConfig config;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.initializer_range = 0.3;  // far from uniform predictions
  config.vocab_size = kTinyVocabulary;
  return config;
}

struct TinyModel {
  TinyModel()
      : parameters(ParameterLayout(config, kTinyVocabulary), at::kFloat, at::kCPU),
        llama(config, initialized(parameters), kTinyLength, CompileMode::kEager) {}

  at::Tensor new_gradient() const { return at::zeros({parameters.layout().flat_size()}); }

  ModelConfig config = tiny_model_config();
  Parameters parameters;
  Llama llama;

 private:
  static Parameters& initialized(Parameters& parameters) {
    parameters.initialize(/*seed=*/7, tiny_model_config().initializer_range);
    return parameters;
  }
};

inline std::vector<int32_t> random_ids(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % kTinyVocabulary);
  return ids;
}

}  // namespace lmtrain::testing
