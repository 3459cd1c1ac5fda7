// A hash table from strings to ids for vocabularies: it owns the bytes of all strings in one block
// of memory, so that a hundred thousand of them are added in milliseconds.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/huge_pages.h"

namespace lmtrain {

class StringIds {
 public:
  static constexpr int32_t kNone = -1;

  // Makes room for `count` strings.
  void reserve(size_t count) {
    if (2 * (count + 1) > slots_.size()) grow(std::bit_ceil(2 * (count + 1)));
  }
  // Adds a string and returns true; if the string is known, keeps its id and returns false.
  // Requires an id >= 0, and less than 4 GiB of strings in all.
  bool add(std::string_view text, int32_t id) {
    if (2 * (size_ + 1) > slots_.size()) grow(std::max(2 * slots_.size(), kFewest));
    const uint64_t hash = hash_of(text);
    Slot& slot = slots_[slot_of(text, hash)];
    if (slot.id != kNone) return false;
    slot = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(bytes_.size()),
            static_cast<uint32_t>(text.size()), id};
    bytes_ += text;
    ++size_;
    return true;
  }
  // Returns the id of the string, or kNone.
  int32_t find(std::string_view text) const {
    return slots_.empty() ? kNone : slots_[slot_of(text, hash_of(text))].id;
  }
  bool contains(std::string_view text) const { return find(text) != kNone; }
  size_t size() const { return size_; }

 private:
  struct Slot {
    uint32_t hash = 0;  // its upper half
    uint32_t begin = 0;
    uint32_t size = 0;
    int32_t id = kNone;
  };
  static constexpr size_t kFewest = 16;  // slots
  using Slots = std::vector<Slot, HugePageAllocator<Slot>>;

  // Returns where the string is, or the empty slot where it belongs. The upper half of the hash
  // alone chooses the slot, so that it is enough to grow the table.
  size_t slot_of(std::string_view text, uint64_t hash) const {
    const size_t mask = slots_.size() - 1;
    const auto half = static_cast<uint32_t>(hash >> 32);
    size_t index = half & mask;
    for (; slots_[index].id != kNone; index = (index + 1) & mask) {
      const Slot& slot = slots_[index];
      if (slot.hash == half && std::string_view(bytes_).substr(slot.begin, slot.size) == text)
        break;
    }
    return index;
  }

  // Most strings have less than 16 bytes, for which two loads are enough.
  static uint64_t hash_of(std::string_view text) {
    if (text.size() > 2 * sizeof(uint64_t)) return hash64(text);
    std::array<uint64_t, 2> words{};
    if (!text.empty()) std::memcpy(words.data(), text.data(), text.size());
    return hash_combine(words[0] ^ text.size() << 56, words[1]);
  }

  void grow(size_t size) {
    Slots old(size);
    old.swap(slots_);
    const size_t mask = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.id == kNone) continue;
      size_t index = slot.hash & mask;
      while (slots_[index].id != kNone) index = (index + 1) & mask;
      slots_[index] = slot;
    }
  }

  Slots slots_;  // a power of two, at most half full
  std::string bytes_;
  size_t size_ = 0;
};

}  // namespace lmtrain
