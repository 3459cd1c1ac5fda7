// A RankBitVector is a set of numbers below a bound. It answers in constant time how many of its
// numbers are smaller than a given one, and takes 16 bytes for each 64 numbers below the bound.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lmtrain {

class RankBitVector {
 public:
  RankBitVector() = default;
  explicit RankBitVector(int64_t bound) : words_(static_cast<size_t>(bound) / 64 + 1) {}

  // Numbers must be in [0, bound). Call rank() once, after the last insert() and before
  // count_below().
  void insert(int64_t number) { word(number).bits |= bit(number); }
  void rank() {
    int64_t before = 0;
    for (Word& word : words_) {
      word.before = before;
      before += std::popcount(word.bits);
    }
  }

  bool contains(int64_t number) const { return (word(number).bits & bit(number)) != 0; }
  int64_t count_below(int64_t number) const {
    return word(number).before + std::popcount(word(number).bits & (bit(number) - 1));
  }

 private:
  struct Word {
    uint64_t bits = 0;
    int64_t before = 0;  // in the words before this one
  };

  static uint64_t bit(int64_t number) { return uint64_t{1} << (number % 64); }
  Word& word(int64_t number) { return words_[static_cast<size_t>(number) / 64]; }
  const Word& word(int64_t number) const { return words_[static_cast<size_t>(number) / 64]; }

  std::vector<Word> words_;
};

}  // namespace lmtrain
