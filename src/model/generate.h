// Continues prompts token by token: sampling with temperature, the likeliest K tokens and the
// nucleus (Holtzman et al., 1904.09751), and a penalty on repetition (Keskar et al., "CTRL",
// 1909.05858, section 4.1, as transformers has it).
//
// The penalty comes first, then the temperature, then top_k, then top_p: the order of transformers.
// Keys and values of earlier positions are kept (model/key_value_cache.h), so that a token costs
// one position, whatever came before, and its attention.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "model/llama.h"

namespace lmtrain {

struct GenerateOptions {
  int64_t max_tokens = 256;  // 0: the text is empty and ends by kMaxTokens
  double temperature = 0.8;  // 0: always the likeliest token
  int64_t top_k = 0;         // sample among so many of the likeliest tokens; 0: among all
  // From 0 to 1. Samples among the fewest of the likeliest tokens, at least one, that together have
  // this share of the probability that top_k leaves.
  double top_p = 0.95;
  // Divides the logits above 0 of tokens that the prompt or the text has, and multiplies those
  // below 0; 1: none. Must be above 0.
  double repetition_penalty = 1;
  int64_t seed = 0;
  // Only ids below this one are drawn; 0: all of the model's. A model may have more rows than its
  // tokenizer has ids, which stand for no text.
  int64_t num_ids = 0;
  // A text ends when one of these is drawn, which is neither returned nor given to on_token.
  std::set<int32_t> stop_ids;
};

enum class GenerateEnd {
  kStopToken,  // one of stop_ids was drawn
  kMaxTokens,  // max_tokens were drawn
  kMaxLength,  // prompt and text fill the positions of the model
  kCaller,     // on_token returned false
};

// Returns the name of the end in files: "eos", "max_tokens", "max_length" or "interrupted".
const char* end_name(GenerateEnd end);

struct Continuation {
  std::vector<int32_t> tokens;  // without the prompt and the stop token
  GenerateEnd end = GenerateEnd::kMaxTokens;
};

// Returns the continuation of `prompt`, from 1 to max_length ids of the model's vocabulary.
// `on_token` is called with each token as it is drawn; when it returns false, generation ends after
// that token, which is returned too. A text ends where prompt and tokens are one more than the
// positions of the model (max_length). Token i is a function of (weights, prompt, options, i).
// Throws Error(kNumeric) when the logits are not finite.
Continuation generate(Llama& model, const std::vector<int32_t>& prompt,
                      const GenerateOptions& options, const std::function<bool(int32_t)>& on_token);

// Continues several prompts, up to `rows`, at least 1, of them at once: when one ends, the next
// takes its place. Prompt n is continued as by generate() with the seed `options.seed` + n, but for
// the rounding of products, which depends on how many prompts there are at once. `on_token` is as
// above, also told which prompt the token continues; when it returns false, that prompt ends, and
// all others are left. `on_end` is called once for each prompt that ends, in the order of their
// ends; not for those that were left. Prompts and errors are as for generate().
void generate_all(Llama& model, const std::vector<std::vector<int32_t>>& prompts, int64_t rows,
                  const GenerateOptions& options,
                  const std::function<bool(size_t prompt, int32_t token)>& on_token,
                  const std::function<void(size_t prompt, Continuation)>& on_end);

}  // namespace lmtrain
