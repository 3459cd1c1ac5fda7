// Keeps words already encoded that WordCache does not keep: of up to 4,096 bytes, with any number
// of ids, in at most 9 MiB. A full cache forgets all words and begins anew. One thread at a time
// may use it.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace lmtrain {

class LongWordCache {
 public:
  // Longer words are not kept: they hardly come a second time.
  static constexpr size_t kLongestWord = 4096;

  // Returns the ids of a word, until the next insert(); none if the cache does not have it. `hash`
  // is a hash of the word, always by the same function.
  std::span<const int32_t> find(std::string_view word, uint64_t hash) const {
    if (places_.empty()) return {};
    for (const size_t i : places_of(hash)) {
      const Place& place = places_[i];
      if (place.hash != hash || place.size != word.size() || place.size == 0) continue;
      const int32_t* const ids = memory_.data() + place.begin;
      if (std::memcmp(ids + place.num_ids, word.data(), word.size()) == 0)
        return {ids, place.num_ids};
    }
    return {};
  }
  // Stores the ids of a word that find() did not find. Does nothing for a word of more than
  // kLongestWord bytes or without ids.
  void insert(std::string_view word, uint64_t hash, std::span<const int32_t> ids) {
    if (word.size() > kLongestWord || ids.empty()) return;
    const size_t begin = memory_.size();
    const size_t end = begin + ids.size() + (word.size() + sizeof(int32_t) - 1) / sizeof(int32_t);
    if (end > kMostMemory) {
      places_.clear();
      memory_.clear();
      return;
    }
    places_.resize(kPlaces);
    memory_.reserve(kMostMemory);  // growth by doubling could take twice the limit
    memory_.insert(memory_.end(), ids.begin(), ids.end());
    memory_.resize(end);
    std::memcpy(memory_.data() + begin + ids.size(), word.data(), word.size());
    const auto [first, second] = places_of(hash);
    places_[places_[first].size == 0 ? first : second] = {hash, static_cast<uint32_t>(begin),
                                                          static_cast<uint32_t>(word.size()),
                                                          static_cast<uint32_t>(ids.size())};
  }

 private:
  static constexpr size_t kPlaces = size_t{1} << 15;
  static constexpr size_t kMostMemory = size_t{1} << 21;  // in ids: 8 MiB

  struct Place {
    uint64_t hash = 0;
    uint32_t begin = 0;  // in memory_
    uint32_t size = 0;   // of the word, in bytes; 0: no word
    uint32_t num_ids = 0;
  };
  // Returns the two places where a word may be. A word goes to its second place if its first is
  // taken; there it replaces any other word.
  static std::array<size_t, 2> places_of(uint64_t hash) {
    return {hash % kPlaces, (hash >> 32) % kPlaces};
  }
  std::vector<Place> places_;    // by hash
  std::vector<int32_t> memory_;  // for each word its ids, then its bytes
};

}  // namespace lmtrain
