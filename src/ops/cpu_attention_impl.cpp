// Compiled once an instruction set, with LMTRAIN_ISA naming it (see CMakeLists.txt and
// cpu_vectors.h).
//
// Places are taken in blocks of kBlock. A block of queries and one of keys give a square of scores;
// on the diagonal only its lower half. Everything a product reads is packed and padded with zeros
// first, so that no product knows of odd counts or sizes.
#include "ops/cpu_attention.h"
#include "ops/cpu_tiles.h"

namespace lmtrain::LMTRAIN_ISA {
namespace {

constexpr int64_t kBlock = kAttentionBlock;

// The bf16 products of the processor where it has them.
template <class T>
struct ArithmeticOf {
  using Type = Singles;
};
#ifdef __AVX512BF16__
template <>
struct ArithmeticOf<Bf16> {
  using Type = Pairs;
};
#endif

// Hands out parts of the scratch, whatever 4-byte type they hold; counts alone without any.
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

// How a head's vectors lie when packed.
template <class A>
struct Widths {
  explicit Widths(int64_t size)
      : numbers(padded(size)), units(numbers / A::kNumbers), stride(padded(units)) {}
  int64_t numbers;  // with padding
  int64_t units;
  int64_t stride;  // of a row of units
};

// Vectors as a left operand that is summed over a head's numbers, and as a right operand that is
// summed over places.
template <class A>
struct Packed {
  typename A::Unit* rows;
  typename A::Unit* pairs;
  int64_t pair_stride;

  Packed(Scratch& scratch, const Widths<A>& widths, int64_t places) {
    scratch.take(rows, padded(places) * widths.stride);
    pairs = rows;
    pair_stride = widths.stride;
    if constexpr (A::kNumbers > 1) {
      scratch.take(pairs, padded(places) / A::kNumbers * widths.numbers);
      pair_stride = widths.numbers;
    }
  }
  template <class T>
  void pack_rows(const T* x, int64_t stride, int64_t places, int64_t size,
                 const Widths<A>& widths) {
    A::pack_rows(x, stride, places, size, padded(places), rows, widths.stride);
  }
  void pack_pairs([[maybe_unused]] int64_t places, [[maybe_unused]] const Widths<A>& widths) {
    if constexpr (A::kNumbers > 1)
      A::pair_rows(rows, widths.stride, padded(places), widths.numbers, pairs);
  }
  Left<typename A::Unit> row(int64_t place, const Widths<A>& widths) const {
    return {rows + place * widths.stride, widths.stride, 1};
  }
  const typename A::Unit* pair(int64_t place) const {
    return pairs + place / A::kNumbers * pair_stride;
  }
};

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// Lanes of the vector at `column` that are before `limit`.
inline Mask before(int64_t limit, int64_t column) {
  return lane_numbers() < static_cast<int32_t>(limit - column);
}

inline Vector& vector_at(float* x) { return *reinterpret_cast<Vector*>(x); }

// Scores become exp(scale * score - maximum) in their first `limit` columns and 0 in the others up
// to `columns`; the row's maximum and sum so far, and y with them, follow (Milakov & Gimelshein,
// 1805.02867).
inline void online_softmax(float* scores, int64_t limit, int64_t columns, float scale,
                           float& maximum, float& sum, float* y, int64_t width, bool first) {
  Vector top = Vector{} - __builtin_inff();
  const int64_t end = padded(limit);
  for (int64_t i = 0; i < end; i += kLanes) {
    top = larger(top, before(limit, i) ? vector_at(scores + i) : top);
  }
  const float block_maximum = largest_lane(top) * scale;
  const float old_maximum = maximum;
  maximum = !first && old_maximum > block_maximum ? old_maximum : block_maximum;
  Vector total = {};
  for (int64_t i = 0; i < end; i += kLanes) {
    Vector& x = vector_at(scores + i);
    x = before(limit, i) ? exp_approx(x * scale - maximum) : Vector{};
    total += x;
  }
  for (int64_t i = end; i < columns; i += kLanes) vector_at(scores + i) = Vector{};
  const float block_sum = sum_of_lanes(total);
  if (first) {
    sum = block_sum;
  } else if (maximum == old_maximum) {
    sum += block_sum;
  } else {
    const float shrink = exp_approx(old_maximum - maximum);
    sum = sum * shrink + block_sum;
    for (int64_t i = 0; i < width; i += kLanes) vector_at(y + i) *= shrink;
  }
}

template <class A>
struct ForwardScratch {
  Packed<A> q, k, v;
  typename A::Unit *k_columns, *weight_units;
  float *scores, *y, *maximum, *sum;

  ForwardScratch(Scratch& scratch, const Widths<A>& widths, int64_t places, int64_t heads)
      : q(scratch, widths, padded(places) * heads),
        k(scratch, widths, kBlock),
        v(scratch, widths, kBlock) {
    scratch.take(k_columns, widths.stride * kBlock);
    scratch.take(weight_units, kBlock * kBlock);
    scratch.take(scores, kBlock * kBlock);
    scratch.take(y, padded(places) * heads * widths.numbers);
    scratch.take(maximum, padded(places) * heads);
    scratch.take(sum, padded(places) * heads);
  }
};

template <class T>
void forward(const AttentionTask<T>& task, int64_t first, int64_t last, float* memory) {
  using A = typename ArithmeticOf<T>::Type;
  const Widths<A> widths(task.size);
  Scratch scratch(memory);
  ForwardScratch<A> s(scratch, widths, last - first, task.heads);
  const int64_t places = padded(last - first);
  for (int64_t head = 0; head < task.heads; ++head) {
    A::pack_rows(task.q.at(head, first), task.q.place_stride, last - first, task.size, places,
                 s.q.rows + head * places * widths.stride, widths.stride);
  }
  for (int64_t key = 0; key < last; key += kBlock) {
    const int64_t keys = smaller(kBlock, last - key);
    s.k.pack_rows(task.k.at(0, key), task.k.place_stride, keys, task.size, widths);
    transpose(s.k.rows, widths.stride, padded(keys), widths.stride, s.k_columns, kBlock);
    s.v.pack_rows(task.v.at(0, key), task.v.place_stride, keys, task.size, widths);
    s.v.pack_pairs(keys, widths);
    for (int64_t head = 0; head < task.heads; ++head) {
      for (int64_t query = key > first ? key : first; query < last; query += kBlock) {
        const int64_t queries = smaller(kBlock, last - query);
        const int64_t row = head * places + query - first;
        const bool diagonal = query == key;
        multiply<A>(s.q.row(row, widths), s.k_columns, kBlock, s.scores, kBlock, padded(queries),
                    padded(keys), widths.units, /*add=*/false,
                    diagonal ? Part::kLowerResult : Part::kAll);
        for (int64_t i = 0; i < queries; ++i) {
          online_softmax(s.scores + i * kBlock, diagonal ? i + 1 : keys, padded(keys), task.scale,
                         s.maximum[row + i], s.sum[row + i], s.y + (row + i) * widths.numbers,
                         widths.numbers, key == 0);
        }
        multiply<A>(A::by_row(s.scores, kBlock, padded(queries), padded(keys), s.weight_units),
                    s.v.pairs, s.v.pair_stride, s.y + row * widths.numbers, widths.numbers,
                    padded(queries), widths.numbers, padded(keys) / A::kNumbers,
                    /*add=*/key != 0, diagonal ? Part::kLowerLeft : Part::kAll);
      }
    }
  }
  for (int64_t head = 0; head < task.heads; ++head) {
    for (int64_t place = first; place < last; ++place) {
      const int64_t row = head * places + place - first;
      task.logsumexp[head * task.logsumexp_stride + place] =
          s.maximum[row] + __builtin_logf(s.sum[row]);
      const float factor = 1.0F / s.sum[row];
      const float* y = s.y + row * widths.numbers;
      T* out = task.y.at(head, place);
#pragma omp simd
      for (int64_t i = 0; i < task.size; ++i) store(out + i, y[i] * factor);
    }
  }
}

template <class A>
struct BackwardScratch {
  Packed<A> q, dy, k, v;
  typename A::Unit *k_columns, *v_columns, *weight_units, *slope_units, *slope_rows;
  float *weights, *slopes, *dq, *dk, *dv, *delta;

  BackwardScratch(Scratch& scratch, const Widths<A>& widths, int64_t places)
      : q(scratch, widths, places),
        dy(scratch, widths, places),
        k(scratch, widths, kBlock),
        v(scratch, widths, kBlock) {
    scratch.take(k_columns, widths.stride * kBlock);
    scratch.take(v_columns, widths.stride * kBlock);
    scratch.take(weight_units, kBlock * kBlock);
    scratch.take(slope_units, kBlock * kBlock);
    scratch.take(slope_rows, kBlock * kBlock);
    scratch.take(weights, kBlock * kBlock);
    scratch.take(slopes, kBlock * kBlock);
    scratch.take(dq, padded(places) * widths.numbers);
    scratch.take(dk, padded(places) * widths.numbers);
    scratch.take(dv, padded(places) * widths.numbers);
    scratch.take(delta, padded(places));
  }
};

// A block's scores become softmax's weights, and the weights' gradients those of the scores.
inline void softmax_backward(float* weights, float* slopes, int64_t queries, int64_t keys,
                             bool diagonal, float scale, const float* logsumexp,
                             const float* delta) {
  for (int64_t row = 0; row < padded(queries); ++row, weights += kBlock, slopes += kBlock) {
    const int64_t limit = row >= queries ? 0 : diagonal ? row + 1 : keys;
    const int64_t end = padded(limit);
    for (int64_t i = 0; i < end; i += kLanes) {
      const Mask used = before(limit, i);
      Vector& weight = vector_at(weights + i);
      Vector& slope = vector_at(slopes + i);
      weight = used ? exp_approx(weight * scale - logsumexp[row]) : Vector{};
      slope = used ? weight * (slope - delta[row]) * scale : Vector{};
    }
    for (int64_t i = end; i < padded(keys); i += kLanes) {
      vector_at(weights + i) = vector_at(slopes + i) = Vector{};
    }
  }
}

template <class T>
void store_rows(const float* x, int64_t x_stride, const HeadVectors<T>& out, int64_t head,
                int64_t places, int64_t size) {
  for (int64_t place = 0; place < places; ++place, x += x_stride) {
    T* to = out.at(head, place);
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) store(to + i, x[i]);
  }
}

template <class T>
void backward(const AttentionTask<T>& task, float* memory) {
  using A = typename ArithmeticOf<T>::Type;
  const Widths<A> widths(task.size);
  const int64_t width = widths.numbers;
  Scratch scratch(memory);
  BackwardScratch<A> s(scratch, widths, task.length);
  for (int64_t head = 0; head < task.heads; ++head) {
    s.q.pack_rows(task.q.at(head, 0), task.q.place_stride, task.length, task.size, widths);
    s.q.pack_pairs(task.length, widths);
    s.dy.pack_rows(task.dy.at(head, 0), task.dy.place_stride, task.length, task.size, widths);
    s.dy.pack_pairs(task.length, widths);
    for (int64_t place = 0; place < task.length; ++place) {
      const T* y = task.y.at(head, place);
      const T* dy = task.dy.at(head, place);
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t i = 0; i < task.size; ++i) dot += load(y + i) * load(dy + i);
      s.delta[place] = dot;
    }
    const float* logsumexp = task.logsumexp + head * task.logsumexp_stride;
    for (int64_t key = 0; key < task.length; key += kBlock) {
      const int64_t keys = smaller(kBlock, task.length - key);
      s.k.pack_rows(task.k.at(0, key), task.k.place_stride, keys, task.size, widths);
      s.k.pack_pairs(keys, widths);
      transpose(s.k.rows, widths.stride, padded(keys), widths.stride, s.k_columns, kBlock);
      s.v.pack_rows(task.v.at(0, key), task.v.place_stride, keys, task.size, widths);
      transpose(s.v.rows, widths.stride, padded(keys), widths.stride, s.v_columns, kBlock);
      for (int64_t query = key; query < task.length; query += kBlock) {
        const int64_t queries = smaller(kBlock, task.length - query);
        const int64_t rows = padded(queries), columns = padded(keys);
        const bool diagonal = query == key;
        const Part result = diagonal ? Part::kLowerResult : Part::kAll;
        multiply<A>(s.q.row(query, widths), s.k_columns, kBlock, s.weights, kBlock, rows, columns,
                    widths.units, /*add=*/false, result);
        multiply<A>(s.dy.row(query, widths), s.v_columns, kBlock, s.slopes, kBlock, rows, columns,
                    widths.units, /*add=*/false, result);
        softmax_backward(s.weights, s.slopes, queries, keys, diagonal, task.scale,
                         logsumexp + query, s.delta + query);
        const bool add = head > 0 || !diagonal;
        const Part upper = diagonal ? Part::kUpperLeft : Part::kAll;
        multiply<A>(A::by_column(s.weights, kBlock, rows, columns, s.weight_units),
                    s.dy.pair(query), s.dy.pair_stride, s.dv + key * width, width, columns, width,
                    rows / A::kNumbers, add, upper);
        multiply<A>(A::by_column(s.slopes, kBlock, rows, columns, s.slope_units), s.q.pair(query),
                    s.q.pair_stride, s.dk + key * width, width, columns, width, rows / A::kNumbers,
                    add, upper);
        multiply<A>(A::by_row(s.slopes, kBlock, rows, columns, s.slope_rows), s.k.pairs,
                    s.k.pair_stride, s.dq + query * width, width, rows, width,
                    columns / A::kNumbers, key > 0, diagonal ? Part::kLowerLeft : Part::kAll);
      }
    }
    store_rows(s.dq, width, task.dq, head, task.length, task.size);
  }
  store_rows(s.dk, width, task.dk, 0, task.length, task.size);
  store_rows(s.dv, width, task.dv, 0, task.length, task.size);
}

template <class T>
int64_t forward_scratch(int64_t places, int64_t size, int64_t heads) {
  using A = typename ArithmeticOf<T>::Type;
  Scratch counted(nullptr);
  const ForwardScratch<A> parts(counted, Widths<A>(size), places, heads);
  return counted.used();
}

template <class T>
int64_t backward_scratch(int64_t places, int64_t size) {
  using A = typename ArithmeticOf<T>::Type;
  Scratch counted(nullptr);
  const BackwardScratch<A> parts(counted, Widths<A>(size), places);
  return counted.used();
}

template <class T>
constexpr CpuAttention<T> attention_table() {
  return {forward<T>, backward<T>, forward_scratch<T>, backward_scratch<T>};
}

}  // namespace

// On top of avx512, avx512_bf16 changes bf16 alone.
#ifndef __AVX512BF16__
extern const CpuAttention<float> kAttentionFloat;
const CpuAttention<float> kAttentionFloat = attention_table<float>();
#endif
extern const CpuAttention<Bf16> kAttentionBf16;
const CpuAttention<Bf16> kAttentionBf16 = attention_table<Bf16>();

}  // namespace lmtrain::LMTRAIN_ISA
