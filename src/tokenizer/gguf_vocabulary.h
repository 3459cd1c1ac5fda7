// Describes a tokenizer in the form that a GGUF file holds it for llama.cpp (llama-vocab.cpp): a
// sentencepiece BPE model as "llama", a tokenizer.json of byte-level BPE as "gpt2" with the
// registered name of its rule that cuts text, and one that was made from a sentencepiece model as
// "llama". A tokenizer that llama.cpp would read as another one is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/gguf.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_json.h"

namespace lmtrain {

struct GgufVocabulary {
  // Numbers of llama_token_type. sentencepiece's PieceType has the same numbers.
  enum Type : int32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

  std::string model;                      // "llama" or "gpt2"
  std::string pre;                        // the name of the rule; of "llama" "default"
  std::vector<std::string> tokens;        // by id
  std::vector<int32_t> types;             // by id, a Type
  std::vector<float> scores;              // by id; of "llama" alone
  std::vector<std::string> merges;        // "a b", the earliest first; of "gpt2" alone
  std::optional<bool> adds_space_prefix;  // of "llama" alone
  std::vector<std::string> differences;   // sentences, for a note: what llama.cpp does otherwise
};

// Returns the name by which llama.cpp knows the rule of a tokenizer.json. Throws Error(kData) that
// names `origin` for one that it does not know.
std::string gguf_pre_name(const TokenizerJson& json, const std::string& origin);

// `vocab_size` is the number of rows of the model's embedding; ids without a token are "[PAD7]",
// unused. `origin` names the tokenizer in messages. Throws Error(kData) that says why for a
// tokenizer that llama.cpp cannot hold, or that has more tokens than the model.
GgufVocabulary gguf_vocabulary(const Tokenizer& tokenizer, int64_t vocab_size,
                               const std::string& origin);

// Adds the keys "tokenizer.ggml.*". A prompt begins with BOS where the tokenizer's own files say
// so, and never ends in EOS.
void add_gguf_vocabulary(const GgufVocabulary& vocabulary, const Tokenizer& tokenizer,
                         GgufMetadata& metadata);

}  // namespace lmtrain
