// Reads a tokenizer.json of Hugging Face's `tokenizers` that holds BPE. Either it is byte-level
// (GPT-2, Llama 3, Qwen, BLOOM, Falcon), or its symbols are characters, and tokens of bytes spell a
// character without a token (Llama 2, Mistral, Gemma). A part that changes ids and is not supported
// is refused, never ignored.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/byte_bpe.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/text_steps.h"

namespace lmtrain {

struct TokenizerJson {
  std::vector<std::string> pieces;  // by id, as the file spells them; "" for an id without a token
  BpeModel model;
  std::vector<AddedToken> added;
  bool is_byte_level = false;  // else the symbols of the model are characters
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> steps;
  std::vector<DecoderStep> decoder;
  // Special tokens that the post-processor puts before and after a text.
  std::vector<int32_t> first_ids;
  std::vector<int32_t> last_ids;
};

// The largest id that a file may use.
inline constexpr int32_t kMostTokenId = (1 << 22) - 1;

// Reads the bytes of a tokenizer.json. Ignores "truncation" and "padding", as transformers does.
// Throws Error(kData) for a file that is damaged, contradicts itself, or has a part that is not
// supported. The message has `origin` and a JSON pointer.
TokenizerJson read_tokenizer_json(std::string_view bytes, const std::string& origin);

}  // namespace lmtrain
