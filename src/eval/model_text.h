// ModelText says how a model reads text: by which tokenizer, with BOS or without, and how many
// tokens at once.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace lmtrain {

struct ModelText {
  const Tokenizer& tokenizer;
  bool add_bos = true;     // a text begins with BOS
  int64_t max_length = 0;  // inputs of the model at once, at least 1

  // Returns the token that a text without any context is predicted from: BOS, or EOS where the
  // tokenizer has no BOS. Throws Error(kData) where it has neither.
  int32_t prefix_id() const;
  // Returns the ids of `text`. BOS is put before them where `add_bos` says so and the tokenizer has
  // one, unless they begin with BOS already: a tokenizer.json reads text that spells BOS as BOS.
  std::vector<int32_t> encode(std::string_view text) const;
};

}  // namespace lmtrain
