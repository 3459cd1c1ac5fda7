// Samples are continuations of given prompts, `log.samples`: at each evaluation of a run its model
// continues every prompt by the likeliest tokens, so that a person sees what it has learned. They
// are what `lmtrain generate --temperature 0` writes with the same weights. Nothing of the run
// depends on them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "config/config.h"
#include "model/generate.h"
#include "model/llama.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {

struct SampledText {
  std::string prompt;
  std::string text;  // what follows the prompt
  int64_t tokens = 0;
  GenerateEnd end = GenerateEnd::kMaxTokens;
};

class SampleWriter {
 public:
  // `config` is resolved and has log.samples. Throws Error(kConfig) that names the prompt when one
  // has more tokens than the model has positions.
  SampleWriter(const Config& config, Tokenizer tokenizer);

  // Returns a sample of each prompt. `keep_going` is called after each token. When it returns
  // false, or the model's output is not finite, only the samples before that are returned.
  std::vector<SampledText> write(Llama& model, const std::function<bool()>& keep_going) const;

 private:
  Tokenizer tokenizer_;
  std::vector<std::string> prompts_;
  std::vector<std::vector<int32_t>> ids_;
  GenerateOptions options_;
};

// Returns the sample as one line for people: both texts in quotes, as JSON writes them, and cut to
// `most_bytes` each, the prompt at its beginning and the text at its end.
std::string sample_line(const SampledText& sample, size_t most_bytes);

}  // namespace lmtrain
