// Fetches memory into the cache during a product, for the next products.
//
// Processors do not foresee long strides or the next page. A core waits for some twenty lines at
// most, so fetching many together holds up the loads of the product. So the product fetches lines
// one by one, some multiplications apart. All is inlined, for each instruction set by itself.
#pragma once

#include <cstdint>

namespace lmtrain {

// Lines are the cache lines of `strips` strips of `bytes` contiguous bytes, `stride` bytes apart.
// If a strip begins inside a line, its last line may be left out.
class Lines {
 public:
  Lines() = default;
  [[gnu::always_inline]] Lines(const void* data, int64_t bytes, int64_t stride, int64_t strips)
      : strip_(static_cast<const char*>(data)), bytes_(bytes), stride_(stride), strips_(strips) {}

  [[gnu::always_inline]] bool empty() const { return strips_ == 0; }
  // Fetches the next line into the second level of the cache; does nothing when all are fetched.
  [[gnu::always_inline]] void fetch_next() {
    if (empty()) return;
    __builtin_prefetch(strip_ + byte_, /*write=*/0, /*second level=*/2);
    byte_ += kLine;
    if (byte_ < bytes_) return;
    byte_ = 0;
    strip_ += stride_;
    --strips_;
  }

  // Returns how many lines are fetched for a strip of `bytes`.
  static int64_t count(int64_t bytes) { return (bytes + kLine - 1) / kLine; }

 private:
  static constexpr int64_t kLine = 64;

  const char* strip_ = nullptr;
  int64_t bytes_ = 0, stride_ = 0, strips_ = 0;
  int64_t byte_ = 0;
};

// A LinesList holds up to eight Lines, to be fetched one after the other; add() ignores more.
class LinesList {
 public:
  [[gnu::always_inline]] void add(const Lines& more) {
    if (count_ < kMost) lines_[count_++] = more;
  }
  // Returns the first Lines that are not empty; empty Lines when all are fetched.
  [[gnu::always_inline]] Lines& first() {
    while (first_ + 1 < count_ && lines_[first_].empty()) ++first_;
    return lines_[first_];
  }

 private:
  static constexpr int kMost = 8;
  Lines lines_[kMost];
  int count_ = 0, first_ = 0;
};

}  // namespace lmtrain
