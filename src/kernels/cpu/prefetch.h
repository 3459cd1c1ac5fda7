// Brings memory into the cache for the products to come, beside the one at hand.
//
// Processors foresee neither long strides nor the next page; and a core waits for so few lines at
// once, some twenty, that fetching many together holds up the loads of the product itself. So lines
// are fetched one by one, some multiplications apart. All is inlined, so that no instruction set's
// copy serves another.
#pragma once

#include <cstdint>

namespace lmtrain {

// Lines are the cache lines of strips of contiguous bytes, `stride` bytes apart. The last line of a
// strip that begins within a line may be left out.
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

  // Returns how many lines a strip of so many bytes takes.
  static int64_t count(int64_t bytes) { return (bytes + kLine - 1) / kLine; }

 private:
  static constexpr int64_t kLine = 64;

  const char* strip_ = nullptr;
  int64_t bytes_ = 0, stride_ = 0, strips_ = 0;
  int64_t byte_ = 0;
};

// A LinesList holds up to eight Lines, which are fetched one after the other. Any further ones are
// not fetched.
class LinesList {
 public:
  [[gnu::always_inline]] void add(const Lines& more) {
    if (count_ < kMost) lines_[count_++] = more;
  }
  // Returns the first Lines with lines left; empty ones when all are fetched.
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
