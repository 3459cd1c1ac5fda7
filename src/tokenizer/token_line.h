// A TokenLine holds the tokens of all words that a vocabulary is trained on, in one array of 4
// bytes a character. Two neighbours are joined in place: a token occupies a slot for each of its
// characters, its first and its last slot hold its id, and gaps stand between words. So the
// neighbours of a token are found without links, and a join takes constant time in a word of any
// length. One thread uses a line.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/word_counter.h"

namespace lmtrain {

class TokenLine {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Reserves `num_slots` slots, for all characters and gaps. Throws Error(kData) for more than 2e9.
  explicit TokenLine(uint64_t num_slots);

  // Adds a kind of token of so many characters and returns its id: 0, 1, 2, ...
  uint32_t add_kind(uint32_t num_characters);
  uint32_t num_characters(uint32_t token) const { return lengths_[token]; }
  // Each word appended from now on counts `weight` times. Fewer changes make weight_at() faster.
  // The caller appends a gap before the first word and after each word.
  void begin_weight(int64_t weight);
  void append(uint32_t token) { slots_.push_back(token); }
  void append_gap() { slots_.push_back(kGap); }
  // Appends all words, with the gaps, and with their counts as weights. append_word(text) appends
  // the tokens of a word. Frequent words come first, so that few stretches differ in weight.
  template <class AppendWord>
  void append_words(const WordCounts& words, const AppendWord& append_word);

  // The number of slots that were appended.
  uint32_t size() const { return static_cast<uint32_t>(slots_.size()); }
  // The token that begins in a slot, or kNone where none begins.
  uint32_t token_at(uint32_t slot) const {
    const uint32_t value = slots_[slot];
    return (value & kEnd) != 0 ? kNone : value & kId;
  }
  // Where the token after the one in `slot` begins, or kNone at the end of a word.
  uint32_t after(uint32_t slot) const {
    const uint32_t next = slot + lengths_[slots_[slot] & kId];
    return slots_[next] == kGap ? kNone : next;
  }
  // Where the token before the one in `slot` begins, or kNone at the beginning of a word.
  uint32_t before(uint32_t slot) const {
    const uint32_t value = slots_[slot - 1];
    return value == kGap ? kNone : slot - lengths_[value & kId];
  }
  // Whether a pair of neighbours with `num_characters` in all begins in `slot`. A pair that once
  // began here is then still here, since joins only make tokens longer.
  bool has_pair(uint32_t slot, uint32_t num_characters) const {
    const uint32_t left = token_at(slot);
    if (left == kNone) return false;
    const uint32_t right = token_at(slot + lengths_[left]);
    return right != kNone && lengths_[left] + lengths_[right] == num_characters;
  }
  // Whether the token in `slot` is fresh: join() has made it, and has not called add() for it yet.
  bool is_fresh(uint32_t slot) const { return (slots_[slot] & kFresh) != 0; }
  // The weight of the word around a slot.
  int64_t weight_at(uint32_t slot);

  // Joins the pair that begins at each of `slots`, ascending, to the token `joined`; skips a slot
  // without a pair of that length. `left` and `right` are the slots of two neighbours. Calls
  // remove(left, right) before a join breaks that pair, except for the joined pair and for pairs
  // with a fresh token. Then calls add(left, right, is_last) for each new pair, ascending. If
  // `is_last`, the pair that begins at `right` is not added yet, or does not exist.
  template <class Remove, class Add>
  void join(std::span<const uint32_t> slots, uint32_t joined, const Remove& remove, const Add& add);

  // How many slots join() has looked at so far, for tests of the cost.
  uint64_t work() const { return work_; }

 private:
  // A slot: the id of a token that begins here, with kFresh; kEnd and the id of a longer token that
  // ends here; or one of two values with kEnd.
  static constexpr uint32_t kEnd = 1U << 31;
  static constexpr uint32_t kFresh = 1U << 30;
  static constexpr uint32_t kId = kFresh - 1;
  static constexpr uint32_t kGap = UINT32_MAX;
  static constexpr uint32_t kInside = UINT32_MAX - 1;

  struct Stretch {
    uint32_t begin;
    int64_t weight;
  };

  std::vector<uint32_t> slots_;
  std::vector<uint32_t> lengths_;    // by id, in characters
  std::vector<Stretch> stretches_;   // of equal weight, ascending
  size_t stretch_ = 0;               // that weight_at() found last
  std::vector<uint32_t> new_slots_;  // of join()
  uint64_t work_ = 0;
};

template <class AppendWord>
void TokenLine::append_words(const WordCounts& words, const AppendWord& append_word) {
  std::vector<uint32_t> order(words.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return words[a].second > words[b].second; });
  begin_weight(0);
  append_gap();
  for (const uint32_t index : order) {
    begin_weight(words[index].second);
    append_word(std::string_view(words[index].first));
    append_gap();
  }
}

template <class Remove, class Add>
void TokenLine::join(std::span<const uint32_t> slots, uint32_t joined, const Remove& remove,
                     const Add& add) {
  constexpr size_t kAhead = 16;
  const uint32_t length = lengths_[joined];
  new_slots_.clear();
  for (size_t i = 0; i < slots.size(); ++i) {
    if (i + kAhead < slots.size()) __builtin_prefetch(&slots_[slots[i + kAhead]]);
    const uint32_t slot = slots[i];
    if (!has_pair(slot, length)) continue;
    const uint32_t right = slot + lengths_[slots_[slot] & kId];
    const uint32_t previous = before(slot);
    const uint32_t next = after(right);
    if (previous != kNone && !is_fresh(previous)) remove(previous, slot);
    if (next != kNone) remove(right, next);
    slots_[right - 1] = kInside;
    slots_[right] = kInside;
    slots_[slot + length - 1] = joined | kEnd;
    slots_[slot] = joined | kFresh;
    new_slots_.push_back(slot);
  }
  for (const uint32_t slot : new_slots_) {
    slots_[slot] &= ~kFresh;
    const uint32_t previous = before(slot);
    const uint32_t next = after(slot);
    const bool has_next = next != kNone && !is_fresh(next);
    if (previous != kNone) add(previous, slot, true);
    if (has_next) add(slot, next, false);
  }
  work_ += slots.size() + new_slots_.size();
}

}  // namespace lmtrain
