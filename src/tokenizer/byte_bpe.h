// Encodes a word by byte-level BPE. The model "BPE" of Hugging Face's `tokenizers` gives the same
// ids. An encoder is immutable, so threads may share it. Each thread needs its own Scratch;
// WordCache and the longest word bound the memory of a Scratch.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/bpe_merge.h"
#include "tokenizer/flat_map.h"
#include "tokenizer/word_cache.h"

namespace lmtrain {

struct ByteBpeModel {
  struct Merge {
    int32_t left;
    int32_t right;
    int32_t joined;
  };
  // By id: the bytes that the token stands for, or its text where the model is not byte-level;
  // nothing for a token that no word contains.
  std::vector<std::optional<std::string>> tokens;
  std::vector<Merge> merges;      // the earliest first; of equal pairs the last counts
  bool ignores_merges = false;    // a word that is a token is encoded as this token
  std::optional<int32_t> unk_id;  // stands for what has no token; nothing: it is left out
  bool fuses_unk = false;         // neighbouring unknown bytes, or characters, are one unk_id
  bool byte_fallback = false;     // a character without a token is tokens of its bytes
};

class ByteBpe {
 public:
  explicit ByteBpe(const ByteBpeModel& model);

  class Scratch {
   private:
    friend class ByteBpe;
    WordCache cache_;
    BpeMerge merge_;
    std::vector<int32_t> ids_;
  };
  // Appends the ids of a word, which may be any bytes, to `ids`. The word must not be empty. If the
  // model has no unk_id, at least one byte of the word must have a token. Throws Error(kData) for a
  // word of about 4 GiB or more.
  void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;

  // Returns the join of two neighbours, for BpeMerge.
  BpeJoin join(int32_t left, int32_t right) const {
    const uint64_t found =
        pairs_.find(uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right));
    if (found == FlatMap::kNone) return {};
    return {static_cast<uint32_t>(found >> 32), static_cast<int32_t>(found & UINT32_MAX)};
  }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  void encode_new_word(std::string_view word, Scratch& scratch) const;

  std::array<int32_t, 256> byte_ids_;  // -1: no token
  FlatMap pairs_;                      // two ids -> rank, id
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> whole_words_;
  std::optional<int32_t> unk_id_;
  bool fuses_unk_;
};

}  // namespace lmtrain
