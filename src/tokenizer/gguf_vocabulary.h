// Describes a tokenizer in the form that a GGUF file holds it for llama.cpp (llama-vocab.cpp): a
// sentencepiece BPE model, and a tokenizer.json made from one, as "llama"; a tokenizer.json of
// byte-level BPE as "gpt2", with llama.cpp's name for its pre-tokenizer. A tokenizer that llama.cpp
// would read as another one is refused.
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
  std::string pre;                        // name of the pre-tokenizer; "default" for "llama"
  std::vector<std::string> tokens;        // by id
  std::vector<int32_t> types;             // by id, a Type
  std::vector<float> scores;              // by id; "llama" only
  std::vector<std::string> merges;        // "a b", the earliest first; "gpt2" only
  std::optional<bool> adds_space_prefix;  // "llama" only
  std::vector<std::string> differences;   // sentences: what llama.cpp does otherwise
};

// Returns llama.cpp's name for the pre-tokenizer of `json`. Throws Error(kData) that names `origin`
// for a pre-tokenizer that llama.cpp does not have.
std::string gguf_pre_name(const TokenizerJson& json, const std::string& origin);

// Describes `tokenizer` for a model whose embedding has `vocab_size` rows. An id without a token,
// such as 7, becomes "[PAD7]", unused. Throws Error(kData) that names `origin` for a tokenizer that
// llama.cpp cannot hold, that has no EOS, or that has more tokens than the embedding has rows.
GgufVocabulary gguf_vocabulary(const Tokenizer& tokenizer, int64_t vocab_size,
                               const std::string& origin);

// Adds the keys "tokenizer.ggml.*". A prompt gets BOS if tokenizer.adds_bos(), and never EOS.
void add_gguf_vocabulary(const GgufVocabulary& vocabulary, const Tokenizer& tokenizer,
                         GgufMetadata& metadata);

}  // namespace lmtrain
