// Encodes a word by byte-level BPE. The model "BPE" of Hugging Face's `tokenizers` gives the same
// ids. An encoder is immutable, so threads may share it. Each thread needs its own Scratch;
// WordCache and the longest word bound the memory of a Scratch.
//
// A long word, such as a sentence in Chinese or Thai, is encoded by BpeBacktracker, or by BpeMerge
// if the model is none for BpeBacktracker.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe_backtracker.h"
#include "tokenizer/bpe_merge.h"
#include "tokenizer/long_word_cache.h"
#include "tokenizer/pair_ranks.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/string_ids.h"
#include "tokenizer/word_cache.h"

namespace lmtrain {

// The model "BPE" of a tokenizer.json, byte-level (ByteBpe) or not (CharacterBpe).
struct BpeModel {
  struct Merge {
    int32_t left;
    int32_t right;
    int32_t joined;
  };
  // By id: the token's bytes, or its text if not byte-level; nothing for a token that no word has.
  std::vector<std::optional<std::string>> tokens;
  std::vector<Merge> merges;      // by rank; of equal pairs the last counts
  bool ignores_merges = false;    // a word that is a token is encoded as this token
  std::optional<int32_t> unk_id;  // stands for text without a token; nothing: that text is lost
  bool fuses_unk = false;         // neighbouring unknown bytes, or characters, are one unk_id
  bool byte_fallback = false;     // a character without a token becomes tokens of its bytes
};

// The ids of a text, in memory that clear() keeps.
class IdBuffer {
 public:
  void clear() { size_ = 0; }
  void push_back(int32_t id) {
    *room(1) = id;
    ++size_;
  }
  // Returns where to write up to `count` more ids; advance() then takes the number written.
  int32_t* room(size_t count) {
    if (ids_.size() - size_ < count) ids_.resize(2 * ids_.size() + count);
    return ids_.data() + size_;
  }
  void advance(size_t count) { size_ += count; }
  std::span<const int32_t> ids() const { return std::span(ids_).first(size_); }

 private:
  std::vector<int32_t> ids_;
  size_t size_ = 0;
};

class ByteBpe {
 public:
  explicit ByteBpe(BpeModel model);

  class Scratch {
   public:
    // Shares learned words with the scratches of other threads (WordCache::exchange()).
    void exchange(SharedWords& words) { cache_.exchange(words); }

   private:
    friend class ByteBpe;
    WordCache cache_;
    LongWordCache long_words_;  // that cache_ does not keep
    BpeMerge merge_;
    size_t bytes_of_queue_ = 0;  // that merge_ has encoded
    BpeBacktracker::Scratch backtracker_;
    std::vector<int32_t> ids_;
  };
  // Appends the ids of words, which may be any bytes, to `ids`. No word may be empty. If the model
  // has no unk_id, at least one byte of each word must have a token. Throws Error(kData) for a word
  // of about 4 GiB or more.
  void encode_words(const PreTokenizer::Batch& batch, Scratch& scratch, IdBuffer& ids) const;
  // The same for one word.
  void encode_word(std::string_view word, Scratch& scratch, IdBuffer& ids) const {
    encode_words({{&word, 1}, word.data() + word.size()}, scratch, ids);
  }

 private:
  void encode_new_word(std::string_view word, Scratch& scratch) const;
  void encode_missed_word(std::string_view word, const WordCache::Key& key, Scratch& scratch,
                          IdBuffer& ids) const;
  void encode_symbols(std::string_view word, Scratch& scratch) const;
  void encode_by_queue(std::string_view word, Scratch& scratch) const;
  bool encode_few_bytes(std::string_view word, std::vector<int32_t>& ids) const;
  const std::optional<BpeBacktracker>& backtracker() const;

  // Words of up to this many bytes are joined without a queue.
  static constexpr size_t kFewBytes = 32;

  std::array<int32_t, 256> byte_ids_;  // -1: no token
  std::vector<uint32_t> byte_ranks_;   // by two bytes: the rank of their join
  PairRanks ranks_;
  StringIds whole_words_;
  // Made of model_, which is then empty, by the first scratch that has seen many long words: that
  // takes as long as all else here.
  mutable std::once_flag has_backtracker_;
  mutable std::optional<BpeBacktracker> backtracker_;
  mutable BpeModel model_;
  std::optional<int32_t> unk_id_;
  bool fuses_unk_;
};

}  // namespace lmtrain
