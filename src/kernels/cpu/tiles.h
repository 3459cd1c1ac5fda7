// Multiplies small matrices in the cache, for attention, and packs the vectors of heads for it.
//
// The left operand is units (kernels/cpu/units.h) [row][unit] or [unit][row], with a stride for
// each index. The right operand is units [unit][column], the result fp32 [row][column]; the rows of
// both are contiguous.
//
// Rows and columns must be multiples of kPad, and everything 64-byte aligned. Compiled per
// instruction set (kernels/cpu/vectors.h).
#pragma once

#include <type_traits>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/cpu/units.h"
#ifdef LMTRAIN_MATRIX_UNITS
#include "kernels/cpu/matrix_units.h"
#endif

namespace lmtrain::LMTRAIN_ISA {

// A register tile has kTileRows x kTileVectors sums, which fill the registers beside the operands.
#if defined(__AVX512F__)
inline constexpr int kTileRows = 8;
#else
inline constexpr int kTileRows = 4;
#endif
inline constexpr int kTileVectors = 2;
// The number of units multiplied between two calls of `beside`. Depths are multiples of it.
inline constexpr int kUnitsTogether = 4;

// Computes one tile of c = a b, or c += a b if `add`: kTileRows rows and kVectors vectors of
// columns. `depth`, in units, is a multiple of kUnitsTogether.
template <class Arithmetic, int kVectors, class F>
inline void multiply_tile(const typename Arithmetic::Unit* a, int64_t row_stride,
                          int64_t unit_stride, const typename Arithmetic::Unit* b, int64_t b_stride,
                          float* c, int64_t c_stride, int64_t depth, bool add, F& beside) {
  Vector sum[kTileRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      sum[i][j] = add ? *reinterpret_cast<const Vector*>(c + i * c_stride + j * kLanes) : Vector{};
    }
  }
  for (int64_t unit = 0; unit < depth; unit += kUnitsTogether) {
    beside();
#pragma GCC unroll 4
    for (int k = 0; k < kUnitsTogether; ++k, a += unit_stride, b += b_stride) {
      typename Arithmetic::Units right[kVectors];
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) {
        right[j] = *reinterpret_cast<const typename Arithmetic::Units*>(b + j * kLanes);
      }
#pragma GCC unroll 8
      for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) {
          sum[i][j] = Arithmetic::multiply_add(sum[i][j], a[i * row_stride], right[j]);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      *reinterpret_cast<Vector*>(c + i * c_stride + j * kLanes) = sum[i][j];
    }
  }
}

// Computes c = a b, or c += a b if `add`. `depth` and the strides of `a` and `b` are in units.
// Calls beside() as often as there are kUnitsTogether units in all tiles.
template <class Arithmetic, class F>
void multiply(Left<typename Arithmetic::Unit> a, const typename Arithmetic::Unit* b,
              int64_t b_stride, float* c, int64_t c_stride, int64_t rows, int64_t columns,
              int64_t depth, bool add, Part part, F& beside) {
#ifdef LMTRAIN_MATRIX_UNITS
  if constexpr (std::is_same_v<Arithmetic, Bf16MatrixUnits>) {
    multiply_in_registers(a, b, b_stride, c, c_stride, rows, columns, depth, add, part, beside);
    return;
  }
#endif
  for (int64_t row = 0; row < rows; row += kTileRows) {
    const int64_t end = row + kTileRows;
    const int64_t wanted = part == Part::kLowerResult ? smaller(padded(end), columns) : columns;
    const int64_t first = part == Part::kUpperLeft ? row / Arithmetic::kNumbers : 0;
    const int64_t last =
        part == Part::kLowerLeft
            ? smaller((end + Arithmetic::kNumbers - 1) / Arithmetic::kNumbers, depth)
            : depth;
    const auto* left = a.data + row * a.row_stride + first * a.unit_stride;
    int64_t column = 0;
    for (; column + kTileVectors * kLanes <= wanted; column += kTileVectors * kLanes) {
      multiply_tile<Arithmetic, kTileVectors>(
          left, a.row_stride, a.unit_stride, b + first * b_stride + column, b_stride,
          c + row * c_stride + column, c_stride, last - first, add, beside);
    }
    if (column < wanted) {
      multiply_tile<Arithmetic, 1>(left, a.row_stride, a.unit_stride, b + first * b_stride + column,
                                   b_stride, c + row * c_stride + column, c_stride, last - first,
                                   add, beside);
    }
  }
}

// Hands out parts of a scratch, for any type of 4 bytes. With a null `begin` it only counts, and
// the parts are null.
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

// The vectors of one head from a position on; `stride` is in numbers.
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

// Rotates `count` vectors and packs them as rows of units, `stride` units apart. `memory` must have
// room for kAttentionBlock vectors.
template <class A, class T>
void pack_rotated(Vectors<T> x, Angles angles, int64_t count, int64_t size, float* memory,
                  typename A::Unit* rows, int64_t stride) {
  auto* rotated = reinterpret_cast<T*>(memory);
  for (int64_t left = count; left > 0; left -= kAttentionBlock) {
    const int64_t some = smaller(left, kAttentionBlock);
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

// Packed vectors of `count` positions. `rows` is the left operand of a product that sums over a
// head's numbers. `pairs`, which pack_pairs() makes from `rows`, is the right operand of a product
// that sums over positions.
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

// Fetches vectors of heads for later use, a few cache lines at each call; multiply() calls it as
// `beside`. `size` is the number of numbers in a vector.
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
  // Spreads the lines over the next `calls` calls, at least 1, of operator(). Call it once, after
  // add(), which must have added at least one vector.
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

// Returns how often attention calls `beside` for the queries [first, last) and the keys up to them,
// over `heads` heads, with `products` products for each square block of scores. Each product sums
// over `size` numbers, or has `size` columns.
template <class A>
int64_t calls_beside(int64_t first, int64_t last, int64_t heads, int64_t products, int64_t size) {
  const auto squares = [](int64_t length) {
    const int64_t blocks = (length + kAttentionBlock - 1) / kAttentionBlock;
    return blocks * (blocks + 1) / 2;
  };
  constexpr int64_t kTile = int64_t{kTileRows} * kTileVectors * kLanes;
  return (squares(last) - squares(first)) * heads * products *
         (kAttentionBlock * kAttentionBlock / kTile) *
         (padded(size) / (A::kNumbers * kUnitsTogether));
}

template <class T>
HeadVectors<const T> read_only(HeadVectors<T> x) {
  return {x.data, x.row_stride, x.head_stride};
}

}  // namespace lmtrain::LMTRAIN_ISA
