// The merges of a BPE model by the two symbols that each joins, for lookups in inner loops: filled
// once, then read by any threads. Most pairs of neighbours have no merge, and a small filter knows
// nearly all of these.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "base/huge_pages.h"
#include "tokenizer/bpe_merge.h"

namespace lmtrain {

class PairRanks {
 public:
  // `merges` are {left, right, joined}, by rank, fewer than 2^31; of equal pairs the last counts.
  template <class Merge>
  explicit PairRanks(const std::vector<Merge>& merges)
      : slots_(std::bit_ceil(3 * merges.size() / 2 + 2)),
        // Ten bits a pair: small enough for the cache of a core.
        filter_(std::bit_ceil(10 * merges.size() / 64 + 1)) {
    merges_.reserve(merges.size());
    for (const Merge& merge : merges) {
      const auto rank = static_cast<uint32_t>(merges_.size());
      merges_.push_back({merge.left, merge.right, merge.joined});
      const uint64_t hash = hash_of(merge.left, merge.right);
      const uint64_t bit = filter_bit(hash);
      filter_[bit / 64] |= uint64_t{1} << bit % 64;
      Slot& slot = slots_[slot_of(merge.left, merge.right, hash)];
      slot = {static_cast<uint32_t>(hash), rank};
    }
  }

  // Returns the rank of the join of two neighbours, or BpeJoin::kNone.
  uint32_t rank(int32_t left, int32_t right) const {
    const uint64_t hash = hash_of(left, right);
    const uint64_t bit = filter_bit(hash);
    if ((filter_[bit / 64] >> bit % 64 & 1) == 0) return BpeJoin::kNone;
    return slots_[slot_of(left, right, hash)].rank;
  }
  // Returns the symbol that a merge gives.
  int32_t joined(uint32_t rank) const { return merges_[rank].joined; }
  // Returns the join of two neighbours, for BpeMerge.
  BpeJoin join(int32_t left, int32_t right) const {
    const uint32_t found = rank(left, right);
    if (found == BpeJoin::kNone) return {};
    return {found, joined(found)};
  }

 private:
  struct Slot {
    uint32_t hash = 0;
    uint32_t rank = BpeJoin::kNone;  // kNone: the slot is free
  };
  struct Merge {
    int32_t left;
    int32_t right;
    int32_t joined;
  };

  static uint64_t hash_of(int32_t left, int32_t right) {
    const uint64_t pair =
        uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
    const uint64_t product = pair * 0x9E3779B97F4A7C15ULL;
    return product ^ product >> 32;
  }
  uint64_t filter_bit(uint64_t hash) const { return hash & (64 * filter_.size() - 1); }

  // Returns where the pair is, or the free slot where it belongs.
  size_t slot_of(int32_t left, int32_t right, uint64_t hash) const {
    const size_t mask = slots_.size() - 1;
    size_t index = hash >> 40 & mask;
    for (; slots_[index].rank != BpeJoin::kNone; index = (index + 1) & mask) {
      const Slot& slot = slots_[index];
      if (slot.hash != static_cast<uint32_t>(hash)) continue;
      const Merge& merge = merges_[slot.rank];
      if (merge.left == left && merge.right == right) break;
    }
    return index;
  }

  std::vector<Slot, HugePageAllocator<Slot>> slots_;  // a power of two, at most two thirds full
  std::vector<uint64_t> filter_;                      // a bit for each pair, which few share
  std::vector<Merge> merges_;                         // by rank
};

}  // namespace lmtrain
