// Reads a tokenizer.json of Hugging Face's `tokenizers` that holds byte-level BPE, as those of
// GPT-2, Llama 3, Qwen, SmolLM and OLMo do. What would change ids and is not supported is refused,
// never passed over.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/byte_bpe.h"
#include "tokenizer/pre_tokenizer.h"

namespace lmtrain {

struct TokenizerJson {
  std::vector<std::string> pieces;  // by id, as the file spells them; "" for an id without a token
  ByteBpeModel model;
  std::vector<AddedToken> added;
  bool normalizes = false;  // to NFC
  std::vector<PreTokenizerStep> steps;
  // The special tokens that the post-processor puts before and behind a text.
  std::vector<int32_t> first_ids;
  std::vector<int32_t> last_ids;
};

// An id that a file may use at most.
inline constexpr int32_t kMostTokenId = (1 << 22) - 1;

// Throws Error(kData) with `origin` and a JSON pointer for a file that is damaged, contradicts
// itself, or has a part that is not supported. "truncation" and "padding" are ignored, as
// transformers does.
TokenizerJson read_tokenizer_json(std::string_view bytes, const std::string& origin);

}  // namespace lmtrain
