// Continues prompts token by token: sampling with temperature, top-k and top-p (nucleus; Holtzman
// et al., 1904.09751), and a penalty on repetition (Keskar et al., "CTRL", 1909.05858, section 4.1,
// as transformers has it).
//
// The order is that of transformers: penalty, temperature, top_k, top_p. A cache keeps keys and
// values of earlier positions (model/key_value_cache.h), so a token costs one position and its
// attention.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "model/llama.h"

namespace lmtrain {

struct GenerateOptions {
  int64_t max_tokens = 256;  // 0: the text is empty and ends by kMaxTokens
  double temperature = 0.8;  // 0: always take the likeliest token
  int64_t top_k = 0;         // sample among the top_k likeliest tokens; 0: among all
  // From 0 to 1: sample among the fewest likeliest tokens, at least one, that have this share of
  // the probability of the top_k tokens.
  double top_p = 0.95;
  // Above 0. Divides positive logits, and multiplies negative logits, of the tokens that prompt or
  // text contain; 1: no penalty.
  double repetition_penalty = 1;
  int64_t seed = 0;
  // Only ids below num_ids are drawn; 0: all ids of the model. A model may have more ids than its
  // tokenizer.
  int64_t num_ids = 0;
  // A text ends when one of these is drawn; the id is not part of the text, and not given to
  // on_token.
  std::set<int32_t> stop_ids;
};

enum class GenerateEnd {
  kStopToken,  // one of stop_ids was drawn
  kMaxTokens,  // the text has max_tokens
  kMaxLength,  // prompt and text have max_length() + 1 tokens: the model takes no more
  kCaller,     // on_token returned false
};

// Returns the name of the end in files: "eos", "max_tokens", "max_length" or "interrupted".
const char* end_name(GenerateEnd end);

struct Continuation {
  std::vector<int32_t> tokens;  // without the prompt and the stop token
  GenerateEnd end = GenerateEnd::kMaxTokens;
};

// Returns the continuation of `prompt`, which has 1 to model.max_length() ids. Calls `on_token`
// with each token as it is drawn; if that returns false, the text ends with this token. Token i is
// a function of (weights, prompt, options, i). Throws Error(kNumeric) if a logit is not finite.
Continuation generate(Llama& model, const std::vector<int32_t>& prompt,
                      const GenerateOptions& options, const std::function<bool(int32_t)>& on_token);

// Continues several prompts, up to `rows` >= 1 at once: when one ends, the next takes its place.
// Prompt n is continued as by generate() with the seed `options.seed` + n, but for the rounding of
// products, which depends on the number of prompts at once. `on_token` also gets the index of the
// prompt; if it returns false, that prompt ends, and all others are abandoned. Calls `on_end` for
// each prompt that ends, in the order of their ends; not for abandoned ones. Prompts and errors are
// as for generate().
void generate_all(Llama& model, const std::vector<std::vector<int32_t>>& prompts, int64_t rows,
                  const GenerateOptions& options,
                  const std::function<bool(size_t prompt, int32_t token)>& on_token,
                  const std::function<void(size_t prompt, Continuation)>& on_end);

}  // namespace lmtrain
