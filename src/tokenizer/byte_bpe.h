// Encodes a word by byte-level BPE. The model "BPE" of Hugging Face's `tokenizers` gives the same
// ids. An encoder is immutable, so threads may share it. Each thread needs its own Scratch;
// WordCache and the longest word bound the memory of a Scratch.
//
// A long word, such as a sentence in Chinese or Thai, is cut between two characters that no merge
// ever gives next to each other. The parts, encoded one by one, give the ids of the word.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe_merge.h"
#include "tokenizer/flat_map.h"
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

// Tells where a word may be cut: between two well-formed characters of UTF-8 that no token of a
// merge has next to each other.
class CutPlaces {
 public:
  // `model` has a token for every byte.
  explicit CutPlaces(const BpeModel& model);
  // Returns the size of the first part of a word that is not empty.
  size_t part_size(std::string_view word) const;
  // Returns whether a token may begin or end within one of the characters beside `place` and have
  // bytes on both sides. `place` is where a character begins, and not 0. Between two ASCII
  // characters it returns whether a token has both.
  bool divides_character(std::string_view word, size_t place) const {
    const size_t pair = size_t{static_cast<unsigned char>(word[place - 1])} << 8 |
                        static_cast<unsigned char>(word[place]);
    return (bytes_[pair / 64] >> pair % 64 & 1) != 0;
  }

 private:
  static uint64_t hash_of(uint64_t pair) { return pair * 0x9E3779B97F4A7C15ULL >> 32; }

  // Pairs of bytes: two ASCII characters, or the ends of characters that a token has in part.
  std::vector<uint64_t> bytes_;
  std::vector<uint64_t> characters_;  // a bit for each other pair, which few others share
};

class ByteBpe {
 public:
  explicit ByteBpe(const BpeModel& model);

  class Scratch {
   public:
    // Shares learned words with the scratches of other threads (WordCache::exchange()).
    void exchange(SharedWords& words) { cache_.exchange(words); }

   private:
    friend class ByteBpe;
    WordCache cache_;
    WordCache part_cache_;  // of parts, if a whole word of the same text may have other ids
    std::vector<WordCache::Key> keys_;
    BpeMerge merge_;
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

  // Returns the join of two neighbours, for BpeMerge.
  BpeJoin join(int32_t left, int32_t right) const {
    const uint64_t pair =
        uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
    const uint64_t bit = filter_bit(pair);
    if ((filter_[bit / 64] >> bit % 64 & 1) == 0) return {};
    const uint64_t found = pairs_.find(pair);
    if (found == FlatMap::kNone) return {};
    return {static_cast<uint32_t>(found >> 32), static_cast<int32_t>(found & UINT32_MAX)};
  }

 private:
  uint64_t filter_bit(uint64_t pair) const {
    return pair * 0x9E3779B97F4A7C15ULL >> 32 & (64 * filter_.size() - 1);
  }
  void encode_new_word(std::string_view word, const char* end, Scratch& scratch) const;
  void encode_parts(std::string_view word, const char* end, Scratch& scratch) const;
  void encode_part(std::string_view part, Scratch& scratch) const;
  bool encode_few_bytes(std::string_view word, std::vector<int32_t>& ids) const;
  void find_characters(const BpeModel& model);
  size_t character_at(std::string_view word, size_t begin, int32_t& id) const;

  // Words of up to this many bytes are joined without a queue.
  static constexpr size_t kFewBytes = 32;

  std::array<int32_t, 256> byte_ids_;  // -1: no token
  std::vector<uint32_t> byte_ranks_;   // by two bytes: the rank of their join
  std::vector<int32_t> joined_;        // by rank
  FlatMap pairs_;                      // two ids -> rank, id
  std::vector<uint64_t> filter_;       // a bit for each pair, which few others share
  StringIds whole_words_;
  std::optional<CutPlaces> cuts_;
  // By code point below 65,536: the token of a character whose bytes are joined before anything is
  // joined to the character; else -1.
  std::vector<int32_t> character_ids_;
  std::optional<int32_t> unk_id_;
  bool fuses_unk_;
};

}  // namespace lmtrain
