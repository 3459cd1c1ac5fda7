// Sampling from a model, token by token: temperature and nucleus sampling (Holtzman et al.,
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

// Tokens that continue `prompt` (at least one id). A context beyond the model's max_length loses
// its oldest tokens. `on_token` is called with each token that will be returned, as it is drawn,
// and ends generation by returning false. Token i is a function of (weights, prompt, seed, i).
std::vector<int32_t> generate(Llama& model, const std::vector<int32_t>& prompt,
                              const GenerateOptions& options,
                              const std::function<bool(int32_t)>& on_token);

}  // namespace lmtrain
