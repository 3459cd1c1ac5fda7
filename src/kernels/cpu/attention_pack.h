// Packs vectors of heads for the products of attention on a CPU, rotated if asked. Compiled per
// instruction set (kernels/cpu/vectors.h).
#pragma once

#include "kernels/cpu/attention.h"
#include "kernels/cpu/units.h"

namespace lmtrain::LMTRAIN_ISA {

// Hands out parts of the scratch, whatever 4-byte type they hold. With a null `begin` it only
// counts, and the parts are null.
class Scratch {
 public:
  explicit Scratch(float* begin) : begin_(begin) {}
  template <class U>
  void take(U*& part, int64_t count) {
    part = begin_ == nullptr ? nullptr : reinterpret_cast<U*>(begin_ + used_);
    used_ += padded(count);
  }
  int64_t used() const { return used_; }

 private:
  float* begin_;
  int64_t used_ = 0;
};

// The widths of a packed vector of a head, which has `size` numbers.
template <class A>
struct Widths {
  explicit Widths(int64_t size)
      : numbers(padded(size)), units(numbers / A::kNumbers), stride(padded(units)) {}
  int64_t numbers;  // numbers with padding
  int64_t units;
  int64_t stride;  // units from a row to the next
};

// The vectors of one head, from a position on.
template <class T>
struct Vectors {
  const T* data;
  int64_t stride;
  Vectors(const HeadVectors<const T>& x, int64_t head, int64_t position)
      : data(x.at(head, position)), stride(x.row_stride) {}
};

// Angles are the rotary tables (attention.h) from a position on.
struct Angles {
  const float *cos, *sin;
  template <class T>
  Angles(const AttentionTask<T>& task, int64_t position)
      : cos(task.cos + position * (task.size / 2)), sin(task.sin + position * (task.size / 2)) {}
};

// Rotates the halves (a, b) of a vector to (a cos - b sin, b cos + a sin); with `sign` -1 it
// rotates back.
template <class In, class T>
void rotate(const In* in, const Angles& angles, float sign, int64_t size, T* out) {
  const float *cos = angles.cos, *sin = angles.sin;
  const int64_t half = size / 2;
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const float a = load(in + i), b = load(in + half + i), s = sign * sin[i];
    store(out + i, a * cos[i] - b * s);
    store(out + half + i, b * cos[i] + a * s);
  }
}

// Packs `count` vectors as rows of units, `stride` units apart. They are rotated in `memory`, which
// has room for kAttentionBlock of them.
template <class A, class T>
void pack_rotated(Vectors<T> x, Angles angles, int64_t count, int64_t size, float* memory,
                  typename A::Unit* rows, int64_t stride) {
  auto* rotated = reinterpret_cast<T*>(memory);
  for (int64_t left = count; left > 0; left -= kAttentionBlock) {
    const int64_t some = left < kAttentionBlock ? left : kAttentionBlock;
    for (int64_t i = 0; i < some; ++i) {
      if (i + kPrefetchRows < left) {
        fetch(x.data + kPrefetchRows * x.stride, size * int64_t{sizeof(T)});
      }
      rotate(x.data, angles, 1.0F, size, rotated + i * size);
      x.data += x.stride;
      angles.cos += size / 2;
      angles.sin += size / 2;
    }
    A::pack_rows(rotated, size, some, size, padded(some), rows, stride);
    rows += kAttentionBlock * stride;
  }
}

// Packed vectors of `count` positions: `rows` is a left operand of a product that sums over a
// head's numbers, and `pairs` a right operand of one that sums over positions. pack_pairs() makes
// `pairs` from `rows`.
template <class A>
struct Packed {
  typename A::Unit* rows;
  typename A::Unit* pairs;
  int64_t pair_stride;

  Packed(Scratch& scratch, const Widths<A>& widths, int64_t count) {
    scratch.take(rows, padded(count) * widths.stride);
    pairs = rows;
    pair_stride = widths.stride;
    if constexpr (A::kNumbers > 1) {
      scratch.take(pairs, padded(count) / A::kNumbers * widths.numbers);
      pair_stride = widths.numbers;
    }
  }
  template <class T>
  void pack_rows(const Vectors<T>& x, int64_t count, int64_t size, const Widths<A>& widths) {
    A::pack_rows(x.data, x.stride, count, size, padded(count), rows, widths.stride);
  }
  template <class T>
  void pack_rotated(const Vectors<T>& x, const Angles& angles, int64_t count, int64_t size,
                    float* memory, const Widths<A>& widths) {
    lmtrain::LMTRAIN_ISA::pack_rotated<A>(x, angles, count, size, memory, rows, widths.stride);
  }
  void pack_pairs([[maybe_unused]] int64_t count, [[maybe_unused]] const Widths<A>& widths) {
    if constexpr (A::kNumbers > 1)
      A::pair_rows(rows, widths.stride, padded(count), widths.numbers, pairs);
  }
  Left<typename A::Unit> row(int64_t position, const Widths<A>& widths) const {
    return {rows + position * widths.stride, widths.stride, 1};
  }
  const typename A::Unit* pair(int64_t position) const {
    return pairs + position / A::kNumbers * pair_stride;
  }
};

}  // namespace lmtrain::LMTRAIN_ISA
