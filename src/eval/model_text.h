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
  int64_t max_length = 0;  // tokens that the model takes at once, at least 1

  // Returns the token before a text without context: BOS or, if the tokenizer has none, EOS. Throws
  // Error(kData) if it has neither.
  int32_t prefix_id() const;
  // Returns the ids of `text`, with BOS before them if `add_bos` and the tokenizer has BOS. Adds no
  // second BOS: a tokenizer.json reads text that spells BOS as BOS.
  std::vector<int32_t> encode(std::string_view text) const;
};

}  // namespace lmtrain
