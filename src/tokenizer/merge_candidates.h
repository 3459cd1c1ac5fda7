// The pairs of neighbours that a trainer of byte pair encoding may join next, numbered from 0 by
// the trainer. PairPlaces knows where each pair stands, PairQueue finds the most frequent pair. The
// trainer reports new places and risen counts; both ask it for lost places and fallen counts. One
// thread uses them. Memory: about 6 bytes for each place that is still there, and 40 for each pair.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tokenizer/token_line.h"

namespace lmtrain {

// The places of each pair: the slots of a TokenLine in which the pair begins.
class PairPlaces {
 public:
  // Makes room for the places of a line of `num_slots` slots.
  explicit PairPlaces(uint64_t num_slots) { slots_.reserve(num_slots + num_slots / 4); }

  // Notes that `pair` begins in `slot`.
  void note(uint32_t pair, uint32_t slot) {
    if (pair >= last_blocks_.size()) {
      last_blocks_.resize(pair + 1, TokenLine::kNone);
      num_noted_.resize(pair + 1, 0);
    }
    if (num_noted_[pair]++ == 0) touched_.push_back(pair);
    noted_.emplace_back(pair, slot);
  }
  // Returns whether so many places are noted that flush() must be called.
  bool is_flush_due() const { return noted_.size() >= kMostNoted; }
  // Files the noted places, and calls touched(pair) once for each of their pairs. If room is
  // needed, first forgets the filed places for which is_there(pair, slot) is false.
  template <class IsThere, class Touched>
  void flush(const IsThere& is_there, const Touched& touched) {
    if (slots_.size() + noted_.size() > slots_.capacity()) drop_gone(is_there);
    for (const uint32_t pair : touched_) {
      const auto begin = static_cast<uint32_t>(slots_.size());
      const uint32_t size = std::exchange(num_noted_[pair], begin);
      blocks_.push_back({begin, size, last_blocks_[pair], pair});
      last_blocks_[pair] = static_cast<uint32_t>(blocks_.size() - 1);
      slots_.resize(begin + size);
    }
    for (const auto& [pair, slot] : noted_) slots_[num_noted_[pair]++] = slot;
    noted_.clear();
    for (const uint32_t pair : touched_) {
      num_noted_[pair] = 0;
      touched(pair);
    }
    touched_.clear();
  }
  // Returns the filed places of a pair, ascending, and forgets them. Some may have lost the pair.
  std::vector<uint32_t> take(uint32_t pair) {
    std::vector<uint32_t> slots;
    uint32_t index = std::exchange(last_blocks_[pair], TokenLine::kNone);
    while (index != TokenLine::kNone) {
      Block& block = blocks_[index];
      const auto begin = slots_.begin() + block.begin;
      slots.insert(slots.end(), begin, begin + block.size);
      block.pair = TokenLine::kNone;
      index = block.previous;
    }
    if (!std::is_sorted(slots.begin(), slots.end())) std::sort(slots.begin(), slots.end());
    return slots;
  }

 private:
  struct Block {
    uint32_t begin;  // in slots_
    uint32_t size;
    uint32_t previous;  // block of the same pair
    uint32_t pair;      // kNone: it was taken
  };

  static constexpr size_t kMostNoted = size_t{1} << 22;

  template <class IsThere>
  void drop_gone(const IsThere& is_there) {
    std::fill(last_blocks_.begin(), last_blocks_.end(), TokenLine::kNone);
    uint32_t end = 0;
    size_t num_blocks = 0;
    for (const Block block : blocks_) {
      if (block.pair == TokenLine::kNone) continue;
      const uint32_t begin = end;
      for (uint32_t i = block.begin; i < block.begin + block.size; ++i) {
        if (is_there(block.pair, slots_[i])) slots_[end++] = slots_[i];
      }
      if (end == begin) continue;
      uint32_t& last = last_blocks_[block.pair];
      blocks_[num_blocks] = {begin, end - begin, last, block.pair};
      last = static_cast<uint32_t>(num_blocks++);
    }
    blocks_.resize(num_blocks);
    slots_.resize(end);
  }

  std::vector<uint32_t> slots_;  // block after block
  std::vector<Block> blocks_;
  std::vector<uint32_t> last_blocks_;  // by pair
  std::vector<std::pair<uint32_t, uint32_t>> noted_;
  std::vector<uint32_t> touched_;    // the pairs of noted_
  std::vector<uint32_t> num_noted_;  // by pair
};

// Finds the most frequent pair. Only pairs above a floor are in its heap, since most pairs are
// rare; the floor sinks when the heap is empty.
class PairQueue {
 public:
  static constexpr uint32_t kNone = TokenLine::kNone;

  // Reports that the count of a pair has grown to `count`. Of pairs with equal counts, a is popped
  // later than b if comes_after(a, b).
  template <class ComesAfter>
  void offer(uint32_t pair, int64_t count, const ComesAfter& comes_after) {
    if (pair >= queued_.size()) queued_.resize(pair + 1, 0);
    if (count < floor_ || count <= queued_[pair]) return;
    queued_[pair] = count;
    heap_.push_back({count, pair});
    std::push_heap(heap_.begin(), heap_.end(), worse(comes_after));
  }
  // Removes and returns the pair with the highest count, or kNone if no count is above 0. Pairs are
  // 0 to num_pairs - 1; count_of(pair) is the count now.
  template <class CountOf, class ComesAfter>
  uint32_t pop(uint32_t num_pairs, const CountOf& count_of, const ComesAfter& comes_after) {
    for (;;) {
      if (heap_.empty() && !lower_floor(num_pairs, count_of, comes_after)) return kNone;
      std::pop_heap(heap_.begin(), heap_.end(), worse(comes_after));
      const Entry best = heap_.back();
      heap_.pop_back();
      if (best.count != queued_[best.pair]) continue;  // a higher entry came first
      queued_[best.pair] = 0;
      const int64_t count = count_of(best.pair);
      if (count == best.count) return best.pair;
      offer(best.pair, count, comes_after);  // it fell since it was queued
    }
  }

 private:
  struct Entry {
    int64_t count;
    uint32_t pair;
  };

  template <class ComesAfter>
  static auto worse(const ComesAfter& comes_after) {
    return [&](const Entry& a, const Entry& b) {
      return a.count != b.count ? a.count < b.count : comes_after(a.pair, b.pair);
    };
  }

  // Returns false where no pair is left.
  template <class CountOf, class ComesAfter>
  bool lower_floor(uint32_t num_pairs, const CountOf& count_of, const ComesAfter& comes_after) {
    int64_t highest = 0;
    for (uint32_t pair = 0; pair < num_pairs; ++pair) highest = std::max(highest, count_of(pair));
    floor_ = std::max<int64_t>(1, highest / 4);
    for (uint32_t pair = 0; pair < num_pairs; ++pair) offer(pair, count_of(pair), comes_after);
    return !heap_.empty();
  }

  std::vector<Entry> heap_;
  std::vector<int64_t> queued_;  // by pair: its highest entry in the heap, 0 for none
  int64_t floor_ = INT64_MAX;
};

}  // namespace lmtrain
