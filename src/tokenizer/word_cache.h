// Keeps words already encoded, with their ids, in tables of at most 12 MiB; in a full table a new
// word replaces an old one. Two words of up to 15 bytes with up to 4 ids, as most are, share a
// cache line; each other word has a line of its own. One thread at a time may use a cache; the
// caches of several threads may exchange words. encode_by_words() encodes a text with a cache.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/huge_pages.h"
#include "base/utf8.h"
#include "tokenizer/shared_words.h"

namespace lmtrain {

class WordCache {
 public:
  static constexpr size_t kLongestWord = EncodedWord::kLongest;
  static constexpr size_t kMostIds = EncodedWord::kMostIds;

  // A word as find() and insert() need it. A long word has a hash only.
  struct Key {
    uint64_t low = 0;   // the first bytes of a short word
    uint64_t high = 0;  // the others, and the size in bits 56 to 59; 0: a long word
    uint64_t hash = 0;
  };
  // Returns the key of a word of 1 to kLongestWord bytes; memory behind the word must be readable
  // up to `end`. Begins to fetch the first line where the word may be: most words are there.
  // (Inlined: a call would return the key in parts, and a read of the whole would wait for them.)
  __attribute__((always_inline)) Key key(std::string_view word, const char* end) const {
    Key key;
    if (word.size() > kShortWord) {
      key.hash = long_hash(word);
      __builtin_prefetch(&long_[lines_of(key.hash, long_).front()]);
      return key;
    }
    const Mask& mask = kMasks[word.size()];
    if (end - word.data() >= 16) {
      key.low = load(word.data()) & mask.low;
      key.high = (load(word.data() + 8) & mask.high) | mask.size;
    } else {
      std::array<char, 16> bytes{};
      std::memcpy(bytes.data(), word.data(), word.size());
      key.low = load(bytes.data());
      key.high = load(bytes.data() + 8) | mask.size;
    }
    key.hash = mix(key.low ^ kMultiplier, key.high ^ kOtherMultiplier);
    __builtin_prefetch(&short_[lines_of(key.hash, short_).front()]);
    return key;
  }

  // Writes the ids of the word to `out`, which has room for kMostIds, and returns their number; 0
  // if the cache does not have the word. `key` is key(word). (Inlined: it runs once a word.)
  __attribute__((always_inline)) size_t find(std::string_view word, const Key& key, int32_t* out) {
    if (key.high != 0) {
      ShortPair& first = short_[lines_of(key.hash, short_).front()];
      if (const size_t count = find_short(first, key, out); count > 0) return count;
    }
    return find_elsewhere(word, key, out);
  }

  // Stores the ids of a word that find() did not find. Does nothing for a word with more ids than
  // kMostIds or without any.
  void insert(std::string_view word, const Key& key, std::span<const int32_t> ids) {
    if (ids.size() > kMostIds || ids.empty()) return;
    store(word, key, ids);
    if (is_shared_ && learned_.size() < kMostLearned) learned_.push_back(encoded(word, ids));
  }

  // Stores the words that other users of `words` have published, and publishes own ones, 64 or more
  // at a time. Call it often, always with the same `words`.
  void exchange(SharedWords& words) {
    if (!is_user_) words.join();
    is_user_ = true;
    is_shared_ = words.has_several_users();
    if (!is_shared_) return;
    for (const SharedWords::ChunkPointer& chunk : words.new_chunks(this, heard_)) {
      for (const EncodedWord& word : *chunk) learn(word);
    }
    constexpr size_t kEnough = 64;
    if (learned_.size() >= kEnough) words.publish(this, std::exchange(learned_, {}));
  }

 private:
  static constexpr size_t kShortWord = 15;
  static constexpr size_t kShortIds = 4;
  static constexpr size_t kMostPairs = size_t{1} << 17;    // 8 MiB
  static constexpr size_t kMostLong = size_t{1} << 16;     // 4 MiB
  static constexpr size_t kMostLearned = size_t{1} << 13;  // between two calls of exchange()

  template <class Entry>
  using Table = std::vector<Entry, HugePageAllocator<Entry>>;
  struct Short {
    uint64_t low = 0;
    uint64_t high = 0;  // the number of ids in bits 60 to 62; 0: no word
    std::array<int32_t, kShortIds> ids;
    bool is(const Key& key) const { return ((low ^ key.low) | (high ^ key.high) << 4) == 0; }
  };
  struct alignas(64) ShortPair : std::array<Short, 2> {};
  static_assert(sizeof(ShortPair) == 64);
  // Bit 63 of Short::high tells that the word was used since a word of its line was replaced.
  static constexpr uint64_t kUsed = uint64_t{1} << 63;
  // Which of the two words it is, no branch asks: that could not be predicted.
  static size_t find_short(ShortPair& pair, const Key& key, int32_t* out) {
    const bool is_first = pair[0].is(key);
    const bool is_second = pair[1].is(key);
    Short& entry = pair[static_cast<size_t>(is_second)];
    std::memcpy(out, entry.ids.data(), sizeof entry.ids);
    if ((static_cast<int>(is_first) | static_cast<int>(is_second)) == 0) return 0;
    if ((entry.high & kUsed) == 0) entry.high |= kUsed;
    return entry.high >> 60 & 7;
  }
  // Finds a long word, or a short word that its first line does not have. It is no part of find(),
  // so that the loops of callers stay small.
  __attribute__((noinline)) size_t find_elsewhere(std::string_view word, const Key& key,
                                                  int32_t* out) {
    const bool is_short = key.high != 0;
    if (is_short) {
      ShortPair& second = short_[lines_of(key.hash, short_).back()];
      if (const size_t count = find_short(second, key, out); count > 0) return count;
      if (!many_ids_[many_ids_bit(key.hash)]) return 0;
    }
    for (const size_t line : lines_of(is_short ? long_hash(word) : key.hash, long_)) {
      const EncodedWord& entry = long_[line];
      if (entry.size != word.size() ||
          std::memcmp(entry.text.data(), word.data(), word.size()) != 0)
        continue;
      std::memcpy(out, entry.ids.data(), sizeof entry.ids);
      return entry.num_ids;
    }
    return 0;
  }

  // Returns the two lines where a word may be. A word goes to its second line if its first is full,
  // and may move between them. Words that share one line hardly ever share both.
  template <class Entry>
  static std::array<size_t, 2> lines_of(uint64_t hash, const Table<Entry>& table) {
    const size_t mask = table.size() - 1;
    return {hash & mask, hash >> 32 & mask};
  }
  static size_t many_ids_bit(uint64_t hash) { return hash >> 48; }
  static constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15ULL;
  static constexpr uint64_t kOtherMultiplier = 0xD1B54A32D192ED03ULL;
  // The bytes of a short word, by its size, and the size as in Key::high.
  struct alignas(32) Mask {
    uint64_t low;
    uint64_t high;
    uint64_t size;
  };
  static constexpr std::array<Mask, kShortWord + 1> kMasks = [] {
    std::array<Mask, kShortWord + 1> masks{};
    for (size_t size = 0; size < masks.size(); ++size) {
      const auto bytes = [](size_t count) {
        return count == 0 ? 0 : count >= 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * count) - 1;
      };
      masks[size] = {bytes(size), bytes(size < 8 ? 0 : size - 8), uint64_t{size} << 56};
    }
    return masks;
  }();
  static uint64_t mix(uint64_t a, uint64_t b) {
    using Wide = unsigned __int128;
    const Wide product = Wide{a} * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  static uint64_t load(const char* bytes) {
    uint64_t value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  static uint64_t long_hash(std::string_view word) {
    std::array<char, 32> bytes{};
    std::memcpy(bytes.data(), word.data(), word.size());
    const uint64_t half =
        mix(load(bytes.data()) ^ kMultiplier, load(bytes.data() + 8) ^ word.size());
    return mix(half ^ load(bytes.data() + 16), load(bytes.data() + 24) ^ kOtherMultiplier);
  }

  static EncodedWord encoded(std::string_view word, std::span<const int32_t> ids) {
    EncodedWord entry{};
    entry.size = static_cast<uint8_t>(word.size());
    entry.num_ids = static_cast<uint8_t>(ids.size());
    std::memcpy(entry.text.data(), word.data(), word.size());
    std::copy(ids.begin(), ids.end(), entry.ids.begin());
    return entry;
  }
  void learn(const EncodedWord& entry) {
    const std::string_view word(entry.text.data(), entry.size);
    const Key word_key = key(word, entry.text.data() + entry.text.size());
    std::array<int32_t, kMostIds> known;
    if (find(word, word_key, known.data()) == 0)
      store(word, word_key, std::span(entry.ids).first(entry.num_ids));
  }

  void store(std::string_view word, const Key& key, std::span<const int32_t> ids) {
    const bool is_short = key.high != 0;
    if (is_short && ids.size() <= kShortIds) {
      insert_short({key.low, key.high | uint64_t{ids.size()} << 60, {}}, key.hash, ids);
      return;
    }
    if (is_short) many_ids_.set(many_ids_bit(key.hash));
    insert_long(encoded(word, ids), is_short ? long_hash(word) : key.hash);
  }
  void insert_short(Short entry, uint64_t hash, std::span<const int32_t> ids) {
    std::copy(ids.begin(), ids.end(), entry.ids.begin());
    if (num_short_ >= short_.size() && short_.size() < kMostPairs) grow_short();
    add(entry, hash);
  }
  void add(const Short& entry, uint64_t hash) {
    if (add_where_room(short_, num_short_, entry, hash)) return;
    ShortPair& pair = short_[lines_of(hash, short_).front()];
    Short& old = pair[(pair[1].high & kUsed) == 0 ? 1 : 0];
    for (Short& word : pair) word.high &= ~kUsed;
    old = entry;
  }
  void grow_short() {
    Table<ShortPair> old(2 * short_.size());
    old.swap(short_);
    num_short_ = 0;
    for (const ShortPair& pair : old) {
      for (const size_t i : {size_t{1}, size_t{0}}) {
        if (!is_free(pair[i])) add(pair[i], hash_of(pair[i]));
      }
    }
  }
  static uint64_t hash_of(const Short& entry) {
    constexpr uint64_t kKey = ~uint64_t{0} >> 4;
    return mix(entry.low ^ kMultiplier, (entry.high & kKey) ^ kOtherMultiplier);
  }

  void insert_long(const EncodedWord& entry, uint64_t hash) {
    // A line holds one word: above a quarter full, words would push each other out.
    if (4 * num_long_ >= long_.size() && long_.size() < kMostLong) grow_long();
    if (!add_where_room(long_, num_long_, entry, hash))
      long_[lines_of(hash, long_).front()] = entry;
  }
  void grow_long() {
    Table<EncodedWord> old(2 * long_.size());
    old.swap(long_);
    num_long_ = 0;
    for (const EncodedWord& entry : old) {
      if (!is_free(entry)) insert_long(entry, hash_of(entry));
    }
  }
  static uint64_t hash_of(const EncodedWord& entry) {
    return long_hash({entry.text.data(), entry.size});
  }

  // Stores a word, and returns true, if one of its lines has room, or a word of these lines can
  // move to its other line. So words hardly push each other out while the table has room.
  template <class Line, class Entry>
  static bool add_where_room(Table<Line>& table, size_t& num_words, const Entry& entry,
                             uint64_t hash) {
    if (add_where_free(table, num_words, entry, hash)) return true;
    for (const size_t line : lines_of(hash, table)) {
      for (Entry& other : words_of(table[line])) {
        if (!add_where_free(table, num_words, other, hash_of(other))) continue;
        other = entry;
        return true;
      }
    }
    return false;
  }
  template <class Line, class Entry>
  static bool add_where_free(Table<Line>& table, size_t& num_words, const Entry& entry,
                             uint64_t hash) {
    for (const size_t line : lines_of(hash, table)) {
      for (Entry& free : words_of(table[line])) {
        if (!is_free(free)) continue;
        free = entry;
        ++num_words;
        return true;
      }
    }
    return false;
  }
  static std::span<Short> words_of(ShortPair& line) { return line; }
  static std::span<EncodedWord> words_of(EncodedWord& line) { return {&line, 1}; }
  static bool is_free(const Short& entry) { return entry.high == 0; }
  static bool is_free(const EncodedWord& entry) { return entry.size == 0; }

  Table<ShortPair> short_ = Table<ShortPair>(size_t{1} << 7);
  size_t num_short_ = 0;  // words
  Table<EncodedWord> long_ = Table<EncodedWord>(size_t{1} << 6);
  size_t num_long_ = 0;
  // A filter of the short words with more than kShortIds ids, which are in long_: each sets the bit
  // of its hash. A short word without its bit is not looked up there. Bits stay set when words are
  // replaced, so tens of thousands of such words fill the filter.
  std::bitset<(size_t{1} << 16)> many_ids_;
  bool is_user_ = false;    // of a SharedWords
  bool is_shared_ = false;  // with others
  size_t heard_ = 0;
  SharedWords::Chunk learned_;  // and not published yet
};

// Cuts `text`, which is valid UTF-8, between two characters wherever may_cut(before, next) is true.
// Calls add(ids) for each word, in order. The ids come from `cache`; for a word that the cache does
// not have, they come from encode(word), and the cache gets them.
template <class MayCut, class Encode, class Add>
void encode_by_words(std::string_view text, WordCache& cache, const MayCut& may_cut,
                     const Encode& encode, const Add& add) {
  const char* const end = text.data() + text.size();
  while (!text.empty()) {
    char32_t before = 0;
    size_t size = decode_utf8(text, before);
    while (size < text.size()) {
      char32_t next = static_cast<unsigned char>(text[size]);
      const size_t size_of_next = next < 128 ? 1 : decode_utf8(text.substr(size), next);
      if (may_cut(before, next)) break;
      before = next;
      size += size_of_next;
    }
    const std::string_view word = text.substr(0, size);
    text.remove_prefix(size);
    if (size > WordCache::kLongestWord) {
      add(encode(word));
      continue;
    }
    const WordCache::Key key = cache.key(word, end);
    std::array<int32_t, WordCache::kMostIds> found;
    if (const size_t count = cache.find(word, key, found.data()); count > 0) {
      add(std::span<const int32_t>(found).first(count));
      continue;
    }
    const std::span<const int32_t> ids = encode(word);
    add(ids);
    cache.insert(word, key, ids);
  }
}

}  // namespace lmtrain
