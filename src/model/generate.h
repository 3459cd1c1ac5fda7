// Samples from a model token by token, with temperature and nucleus sampling (Holtzman et al.,
// 1904.09751).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/llama.h"

namespace lmtrain {

struct GenerateOptions {
  int64_t max_tokens = 256;
  double temperature = 0.8;  // 0: always the likeliest token
  double top_p = 0.95;  // sample among the likeliest tokens that together reach this probability
  int64_t seed = 0;
  int32_t stop_id = -1;  // generation ends when this is drawn; it is not returned
};

// Returns the tokens that continue `prompt`, without it. Requires at least one id in it, and ids of
// the model's vocabulary. A context beyond the model's max_length loses its oldest tokens.
// `on_token` is called with each token as it is drawn; when it returns false, generation ends after
// that token, which is returned too. Token i is a function of (weights, prompt, options, i). Throws
// Error(kNumeric) when the logits are not finite.
std::vector<int32_t> generate(Llama& model, const std::vector<int32_t>& prompt,
                              const GenerateOptions& options,
                              const std::function<bool(int32_t)>& on_token);

}  // namespace lmtrain
