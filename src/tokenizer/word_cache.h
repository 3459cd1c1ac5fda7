// Keeps words already encoded, with their ids, in tables that grow up to a fixed size; then a new
// word takes the place of an old one. Words of up to 15 bytes with up to 4 ids, which most are,
// share a cache line two by two, and the one used last stays. Each other word has a line of its
// own. One thread at a time may use it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace lmtrain {

class WordCache {
 public:
  static constexpr size_t kLongestWord = 30;  // bytes
  static constexpr size_t kMostIds = 8;

  // The key of a word, of use with this word alone.
  struct Key {
    uint64_t low = 0;   // the first bytes of a short word
    uint64_t high = 0;  // the others, and the size in bits 56 to 59
    uint64_t hash = 0;
  };
  // Returns the key of a word of 1 to kLongestWord bytes, which lies in memory that can be read up
  // to `end`, and begins to fetch the memory that find() needs.
  Key key(std::string_view word, const char* end) const {
    Key key;
    if (word.size() > kShortWord) {
      key.hash = long_hash(word);
      __builtin_prefetch(&long_[key.hash & (long_.size() - 1)]);
      return key;
    }
    if (end - word.data() >= 16) {
      key.low = load(word.data()) & kMasks[std::min<size_t>(word.size(), 8)];
      key.high = load(word.data() + 8) & kMasks[word.size() < 8 ? 0 : word.size() - 8];
    } else {
      std::array<char, 16> bytes{};
      std::memcpy(bytes.data(), word.data(), word.size());
      key.low = load(bytes.data());
      key.high = load(bytes.data() + 8);
    }
    key.high |= uint64_t{word.size()} << 56;
    key.hash = mix(key.low ^ kMultiplier, key.high ^ kOtherMultiplier);
    __builtin_prefetch(&short_[key.hash & (short_.size() - 1)]);
    return key;
  }

  // Writes the ids of the word to `out`, which has room for kMostIds, and returns their number; 0
  // for a word that is not there. `key` is key(word).
  size_t find(std::string_view word, const Key& key, int32_t* out) {
    if (word.size() <= kShortWord) {
      ShortPair& pair = short_[key.hash & (short_.size() - 1)];
      const bool is_second = !pair[0].is(key);
      if (is_second && pair[1].is(key)) std::swap(pair[0], pair[1]);
      if (!is_second || pair[0].is(key)) {
        std::memcpy(out, pair[0].ids.data(), sizeof pair[0].ids);
        return pair[0].high >> 60;
      }
      if (num_long_ == 0) return 0;
    }
    const uint64_t hash = word.size() <= kShortWord ? long_hash(word) : key.hash;
    const Long& entry = long_[hash & (long_.size() - 1)];
    if (entry.size != word.size() || std::memcmp(entry.text.data(), word.data(), word.size()) != 0)
      return 0;
    std::memcpy(out, entry.ids.data(), sizeof entry.ids);
    return entry.num_ids;
  }

  // Stores the ids of a word; does nothing for a word with more ids than kMostIds or without any.
  void insert(std::string_view word, const Key& key, std::span<const int32_t> ids) {
    if (ids.size() > kMostIds || ids.empty()) return;
    if (word.size() <= kShortWord && ids.size() <= kShortIds) {
      insert_short({key.low, key.high | uint64_t{ids.size()} << 60, {}}, key.hash, ids);
    } else {
      insert_long(word, word.size() <= kShortWord ? long_hash(word) : key.hash, ids);
    }
  }

 private:
  static constexpr size_t kShortWord = 15;
  static constexpr size_t kShortIds = 4;
  static constexpr size_t kMostPairs = size_t{1} << 17;  // 8 MiB
  static constexpr size_t kMostLong = size_t{1} << 16;   // 4 MiB

  struct Short {
    uint64_t low = 0;
    uint64_t high = 0;  // the number of ids in bits 60 to 63; 0: no word
    std::array<int32_t, kShortIds> ids;
    bool is(const Key& key) const { return low == key.low && (high ^ key.high) << 4 == 0; }
  };
  struct alignas(64) ShortPair : std::array<Short, 2> {};
  static_assert(sizeof(ShortPair) == 64);
  struct alignas(64) Long {
    uint8_t size = 0;  // 0: no word
    uint8_t num_ids = 0;
    std::array<char, kLongestWord> text;
    std::array<int32_t, kMostIds> ids;
  };
  static_assert(sizeof(Long) == 64);

  static constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15ULL;
  static constexpr uint64_t kOtherMultiplier = 0xD1B54A32D192ED03ULL;
  static constexpr std::array<uint64_t, 9> kMasks = {0,
                                                     0xFF,
                                                     0xFFFF,
                                                     0xFFFFFF,
                                                     0xFFFFFFFF,
                                                     0xFFFFFFFFFF,
                                                     0xFFFFFFFFFFFF,
                                                     0xFFFFFFFFFFFFFF,
                                                     0xFFFFFFFFFFFFFFFF};
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

  void insert_short(Short entry, uint64_t hash, std::span<const int32_t> ids) {
    std::copy(ids.begin(), ids.end(), entry.ids.begin());
    if (num_short_ >= short_.size() && short_.size() < kMostPairs) grow_short();
    add(entry, hash);
  }
  void add(const Short& entry, uint64_t hash) {
    ShortPair& pair = short_[hash & (short_.size() - 1)];
    if (pair[1].high == 0) ++num_short_;
    pair[1] = pair[0];
    pair[0] = entry;
  }
  void grow_short() {
    std::vector<ShortPair> old(2 * short_.size());
    old.swap(short_);
    num_short_ = 0;
    for (const ShortPair& pair : old) {
      for (const size_t i : {size_t{1}, size_t{0}}) {
        const Short& entry = pair[i];
        constexpr uint64_t kKey = ~uint64_t{0} >> 4;
        if (entry.high != 0)
          add(entry, mix(entry.low ^ kMultiplier, (entry.high & kKey) ^ kOtherMultiplier));
      }
    }
  }

  void insert_long(std::string_view word, uint64_t hash, std::span<const int32_t> ids) {
    if (2 * num_long_ >= long_.size() && long_.size() < kMostLong) grow_long();
    Long& entry = long_[hash & (long_.size() - 1)];
    if (entry.size == 0) ++num_long_;
    entry.size = static_cast<uint8_t>(word.size());
    entry.num_ids = static_cast<uint8_t>(ids.size());
    std::memcpy(entry.text.data(), word.data(), word.size());
    std::copy(ids.begin(), ids.end(), entry.ids.begin());
  }
  void grow_long() {
    std::vector<Long> old(2 * long_.size());
    old.swap(long_);
    num_long_ = 0;
    for (const Long& entry : old) {
      if (entry.size == 0) continue;
      const std::string_view word(entry.text.data(), entry.size);
      insert_long(word, long_hash(word), std::span(entry.ids).first(entry.num_ids));
    }
  }

  std::vector<ShortPair> short_ = std::vector<ShortPair>(size_t{1} << 7);
  size_t num_short_ = 0;  // words
  std::vector<Long> long_ = std::vector<Long>(size_t{1} << 6);
  size_t num_long_ = 0;
};

}  // namespace lmtrain
