// Keeps words already encoded, with their ids, in a table of one cache line a word that grows up to
// a fixed size, and then lets a new word take the place of an old one. One thread at a time may use
// it.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace lmtrain {

class WordCache {
 public:
  static constexpr size_t kLongestWord = 30;  // bytes
  static constexpr size_t kMostIds = 8;
  static constexpr size_t kMostWords = size_t{1} << 17;  // 8 MiB

  // Returns the hash that find() and insert() take.
  static uint64_t hash(std::string_view word) {
    uint64_t value = word.size() * kMultiplier;
    while (word.size() > sizeof(uint64_t)) {
      value = mix(value ^ load(word.substr(0, sizeof(uint64_t))));
      word.remove_prefix(sizeof(uint64_t));
    }
    return mix(value ^ load(word));
  }

  // Returns the ids of the word, or an empty span; it is valid until the next insert(). `hash` is
  // hash(word).
  std::span<const int32_t> find(std::string_view word, uint64_t hash) const {
    const Entry& entry = entries_[hash & (entries_.size() - 1)];
    if (entry.size != word.size() || std::memcmp(entry.text.data(), word.data(), word.size()) != 0)
      return {};
    return std::span(entry.ids).first(entry.num_ids);
  }

  // Stores the ids of a word; does nothing for a word longer than kLongestWord or with more ids
  // than kMostIds.
  void insert(std::string_view word, uint64_t hash, std::span<const int32_t> ids) {
    if (word.size() > kLongestWord || ids.size() > kMostIds || ids.empty()) return;
    if (2 * num_words_ >= entries_.size() && entries_.size() < kMostWords) grow();
    Entry& entry = entries_[hash & (entries_.size() - 1)];
    if (entry.size == 0) ++num_words_;
    entry.size = static_cast<uint8_t>(word.size());
    entry.num_ids = static_cast<uint8_t>(ids.size());
    std::memcpy(entry.text.data(), word.data(), word.size());
    std::memcpy(entry.ids.data(), ids.data(), ids.size_bytes());
  }

 private:
  struct alignas(64) Entry {
    uint8_t size = 0;  // 0: none
    uint8_t num_ids = 0;
    std::array<char, kLongestWord> text;
    std::array<int32_t, kMostIds> ids;
  };
  static_assert(sizeof(Entry) == 64);

  static constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15ULL;
  static uint64_t mix(uint64_t value) {
    value *= kMultiplier;
    return value ^ (value >> 32);
  }
  static uint64_t load(std::string_view bytes) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }

  void grow() {
    std::vector<Entry> old(2 * entries_.size());
    old.swap(entries_);
    num_words_ = 0;
    for (const Entry& entry : old) {
      if (entry.size == 0) continue;
      const std::string_view word(entry.text.data(), entry.size);
      insert(word, hash(word), std::span(entry.ids).first(entry.num_ids));
    }
  }

  std::vector<Entry> entries_ = std::vector<Entry>(size_t{1} << 8);
  size_t num_words_ = 0;
};

}  // namespace lmtrain
