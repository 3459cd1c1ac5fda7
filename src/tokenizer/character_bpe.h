// Encodes text by the BPE of a tokenizer.json that is not byte-level, as Llama 2's, Mistral's and
// Gemma's: the symbols are characters, and a character without a token is spelled in tokens of its
// bytes, "<0xE2>", or is <unk>. The model "BPE" of Hugging Face's `tokenizers` gives the same ids.
//
// A word may be a whole document. It is cut between two characters that stand together in no merged
// token. The parts, encoded one by one, give the ids of the whole.
//
// An encoder is immutable, so threads may share it. Each thread needs its own Scratch; WordCache
// and the longest part bound the memory of a Scratch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/bpe_merge.h"
#include "tokenizer/byte_bpe.h"
#include "tokenizer/flat_map.h"
#include "tokenizer/pair_ranks.h"
#include "tokenizer/string_ids.h"
#include "tokenizer/word_cache.h"

namespace lmtrain {

class CharacterBpe {
 public:
  // `model.tokens` are texts, as the file spells them.
  explicit CharacterBpe(const BpeModel& model);

  class Scratch {
   public:
    // Shares learned words with the scratches of other threads (WordCache::exchange()).
    void exchange(SharedWords& words) { cache_.exchange(words); }

   private:
    friend class CharacterBpe;
    WordCache cache_;
    BpeMerge merge_;
    std::vector<int32_t> ids_;
  };
  // Appends the ids of a word, which is valid UTF-8 and not empty, to `ids`. Throws Error(kData)
  // for a part of about 4 GiB.
  void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;

 private:
  void add_neighbours(std::string_view token);
  int32_t id_of(char32_t character) const;
  bool may_cut(char32_t before, char32_t next) const;
  void encode_part(std::string_view part, Scratch& scratch) const;
  bool add_bytes(std::string_view character, BpeMerge& merge) const;

  std::array<int32_t, 128> ascii_ids_;
  FlatMap character_ids_;  // other characters -> id
  std::array<std::array<uint64_t, 2>, 128> ascii_neighbours_{};
  FlatMap neighbours_;                 // two characters, not both ASCII, of the token of a merge
  std::array<int32_t, 256> byte_ids_;  // -1: no token
  PairRanks ranks_;
  StringIds whole_words_;
  std::optional<int32_t> unk_id_;
  bool fuses_unk_;
  bool has_all_bytes_ = false;  // so that no character is unknown
  bool cuts_ = true;            // no merge has a byte or <unk> in it
};

}  // namespace lmtrain
