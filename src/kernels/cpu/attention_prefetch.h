// Fetches memory for attention on a CPU beside its products. Compiled per instruction set
// (kernels/cpu/vectors.h).
#pragma once

#include "kernels/cpu/attention.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/cpu/tiles.h"

namespace lmtrain::LMTRAIN_ISA {

// Fetches vectors of heads that are used later, a few lines of the cache at each call beside a
// product; a processor does not foresee how they lie in memory. `size` is the count of numbers in a
// vector.
template <class T>
class Prefetch {
 public:
  explicit Prefetch(int64_t size) : bytes_(size * int64_t{sizeof(T)}) {}
  // Adds the vectors of positions [first, last) of each head; at most kMost calls.
  void add(HeadVectors<const T> x, int64_t heads, int64_t first, int64_t last) {
    x.data += first * x.row_stride;
    parts_[count_++] = {x, heads, last - first};
    lines_in_all_ += heads * (last - first) * Lines::count(bytes_);
  }
  // Spreads the lines over the next `calls` calls of operator(), at least 1. Call it once, after
  // add() has been given all vectors, at least one.
  void spread(int64_t calls) {
    share_ = (lines_in_all_ + calls - 1) / calls;
    while (2 * apart_ * lines_in_all_ <= calls) apart_ *= 2;
  }
  [[gnu::always_inline]] void operator()() {
    if ((++call_ & (apart_ - 1)) != 0) return;
    for (int64_t i = 0; i < share_; ++i) {
      if (lines_.empty()) {
        if (part_ == count_) return;
        next_head();
      }
      lines_.fetch_next();
    }
  }

 private:
  struct Part {
    HeadVectors<const T> x;
    int64_t heads, length;
  };
  static constexpr int kMost = 8;

  void next_head() {
    const Part& part = parts_[part_];
    lines_ = {part.x.at(head_, 0), bytes_, part.x.row_stride * int64_t{sizeof(T)}, part.length};
    if (++head_ < part.heads) return;
    head_ = 0;
    ++part_;
  }

  Part parts_[kMost];
  int count_ = 0;
  int64_t bytes_, lines_in_all_ = 0;
  int64_t share_ = 0, apart_ = 1, call_ = 0;
  Lines lines_;
  int part_ = 0;
  int64_t head_ = 0;
};

// Returns how often the products of attention call their `beside`: `products` products for each
// square of scores of the queries [first, last) and the keys up to them, over `heads` heads. Each
// product sums over `size` numbers, or has `size` columns.
inline int64_t calls_beside(int64_t first, int64_t last, int64_t heads, int64_t products,
                            int64_t size) {
  const auto squares = [](int64_t length) {
    const int64_t blocks = (length + kAttentionBlock - 1) / kAttentionBlock;
    return blocks * (blocks + 1) / 2;
  };
  constexpr int64_t kTile = int64_t{kTileRows} * kTileVectors * kLanes;
  return (squares(last) - squares(first)) * heads * products *
         (kAttentionBlock * kAttentionBlock / kTile) * (padded(size) / kUnitsTogether);
}

template <class T>
HeadVectors<const T> read_only(HeadVectors<T> x) {
  return {x.data, x.row_stride, x.head_stride};
}

}  // namespace lmtrain::LMTRAIN_ISA
