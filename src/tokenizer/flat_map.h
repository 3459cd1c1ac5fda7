// An open-addressing hash table from 64-bit keys to 64-bit values, for lookups in inner loops:
// filled once, then read by any threads. kNone is not allowed as a key or a value.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/hash.h"
#include "base/huge_pages.h"

namespace lmtrain {

class FlatMap {
 public:
  static constexpr uint64_t kNone = UINT64_MAX;

  // Inserts a value, or replaces the one that the key has.
  void insert(uint64_t key, uint64_t value) {
    if (2 * (size_ + 1) > slots_.size()) grow(std::max(2 * slots_.size(), kFewest));
    Slot& slot = slots_[slot_of(key)];
    if (slot.key == kNone) ++size_;
    slot = {key, value};
  }
  // Returns the value, or kNone.
  uint64_t find(uint64_t key) const { return slots_.empty() ? kNone : slots_[slot_of(key)].value; }

 private:
  struct Slot {
    uint64_t key = kNone;
    uint64_t value = kNone;
  };
  using Slots = std::vector<Slot, HugePageAllocator<Slot>>;
  static constexpr size_t kFewest = 16;  // slots

  // Returns where the key is, or the empty slot where it belongs.
  size_t slot_of(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t index = mix64(key) & mask;
    while (slots_[index].key != key && slots_[index].key != kNone) index = (index + 1) & mask;
    return index;
  }

  void grow(size_t size) {
    Slots old(size);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.key != kNone) slots_[slot_of(slot.key)] = slot;
    }
  }

  Slots slots_;  // a power of two, at most half full
  size_t size_ = 0;
};

}  // namespace lmtrain
