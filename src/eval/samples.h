// Samples are continuations of the prompts in `log.samples`: at each evaluation of a run its model
// continues every prompt by the likeliest tokens, as `lmtrain generate --temperature 0` does, so
// that a person sees what it has learned. Nothing in the run depends on them.
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
  // `config` is resolved and has log.samples. Throws Error(kConfig) that names a prompt with more
  // tokens than sequence.max_length.
  SampleWriter(const Config& config, Tokenizer tokenizer);

  // Returns a sample of each prompt. Calls `keep_going` after each token. If that returns false, or
  // the model's output is not finite, returns only the finished samples.
  std::vector<SampledText> write(Llama& model, const std::function<bool()>& keep_going) const;

 private:
  Tokenizer tokenizer_;
  std::vector<std::string> prompts_;
  std::vector<std::vector<int32_t>> ids_;
  GenerateOptions options_;
};

// Returns the sample as one line for people: both texts in quotes, as JSON writes them, and cut to
// `most_bytes` each. The prompt loses its beginning, the text its end.
std::string sample_line(const SampledText& sample, size_t most_bytes);

}  // namespace lmtrain
