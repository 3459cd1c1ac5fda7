// Compiled once an instruction set, with LMTRAIN_ISA naming it (see CMakeLists.txt and
// cpu_vectors.h).
//
// Places are taken in blocks of kBlock. A block of queries and one of keys give a square of scores;
// on the diagonal only its lower half. Everything a product reads is packed and padded with zeros
// first, so that no product knows of odd counts or sizes.
#include "ops/cpu_attention.h"
#include "ops/cpu_lines.h"
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

// Vectors of a head at `place` on, and the angles of their places, where they are rotated.
template <class T>
struct Vectors {
  const T* data;
  int64_t stride;
  const float *cos, *sin;
};

template <class T>
Vectors<T> vectors(const HeadVectors<const T>& x, int64_t head, int64_t place) {
  return {x.at(head, place), x.place_stride, nullptr, nullptr};
}
template <class T>
Vectors<T> rotated_vectors(const AttentionTask<T>& task, const HeadVectors<const T>& x,
                           int64_t head, int64_t place) {
  const int64_t angles = place * (task.size / 2);
  if (task.cos == nullptr) return vectors(x, head, place);
  return {x.at(head, place), x.place_stride, task.cos + angles, task.sin + angles};
}

// The halves of a vector, (a, b), as (a cos - b sin, b cos + a sin).
template <class In, class T>
void rotate(const In* in, const float* cos, const float* sin, float sign, int64_t size, T* out) {
  const int64_t half = size / 2;
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const float a = load(in + i), b = load(in + half + i), s = sign * sin[i];
    store(out + i, a * cos[i] - b * s);
    store(out + half + i, b * cos[i] + a * s);
  }
}

// Packs vectors as rows of units, a block at a time; those that are rotated by way of `memory`, of
// kBlock vectors.
template <class A, class T>
void pack_vectors(Vectors<T> x, int64_t places, int64_t size, float* memory, typename A::Unit* rows,
                  int64_t stride) {
  auto* rotated = reinterpret_cast<T*>(memory);
  for (int64_t first = 0; first < places; first += kBlock) {
    const int64_t some = places - first < kBlock ? places - first : kBlock;
    if (x.cos == nullptr) {
      A::pack_rows(x.data, x.stride, some, size, padded(some), rows, stride);
    } else {
      for (int64_t place = 0; place < some; ++place) {
        const T* in = x.data + place * x.stride;
        if (first + place + kRowsAhead < places) {
          fetch(in + kRowsAhead * x.stride, size * int64_t{sizeof(T)});
        }
        const int64_t angles = place * (size / 2);
        rotate(in, x.cos + angles, x.sin + angles, 1.0F, size, rotated + place * size);
      }
      A::pack_rows(rotated, size, some, size, padded(some), rows, stride);
      x.cos += kBlock * (size / 2);
      x.sin += kBlock * (size / 2);
    }
    x.data += kBlock * x.stride;
    rows += kBlock * stride;
  }
}

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
  void pack_rows(const Vectors<T>& x, int64_t places, int64_t size, float* memory,
                 const Widths<A>& widths) {
    pack_vectors<A>(x, places, size, memory, rows, widths.stride);
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

// Vectors of heads that are used later, fetched beside products: they lie in memory as a processor
// does not foresee.
template <class T>
class Ahead {
 public:
  explicit Ahead(int64_t size) : bytes_(size * int64_t{sizeof(T)}) {}
  // Vectors of the places up to `last`, from `first` on.
  void add(HeadVectors<const T> x, int64_t heads, int64_t first, int64_t last) {
    x.data += first * x.place_stride;
    parts_[count_++] = {x, heads, last - first};
    lines_in_all_ += heads * (last - first) * Lines::count(bytes_);
  }
  // Spreads them over so many calls.
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
    int64_t heads, places;
  };
  static constexpr int kMost = 8;

  void next_head() {
    const Part& part = parts_[part_];
    lines_ = {part.x.at(head_, 0), bytes_, part.x.place_stride * int64_t{sizeof(T)}, part.places};
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

// Calls that `products` of each square of scores make, of queries [first, last) and the keys up to
// them, which sum over or have `size` columns.
inline int64_t calls_beside(int64_t first, int64_t last, int64_t heads, int64_t products,
                            int64_t size) {
  const auto squares = [](int64_t places) {
    const int64_t blocks = (places + kBlock - 1) / kBlock;
    return blocks * (blocks + 1) / 2;
  };
  constexpr int64_t kTile = int64_t{kTileRows} * kTileVectors * kLanes;
  return (squares(last) - squares(first)) * heads * products * (kBlock * kBlock / kTile) *
         (padded(size) / kUnitsTogether);
}

template <class T>
HeadVectors<const T> read_only(HeadVectors<T> x) {
  return {x.data, x.place_stride, x.head_stride};
}

// Lanes of the vector at `column` that are before `limit`.
inline Mask before(int64_t limit, int64_t column) {
  return lane_numbers() < static_cast<int32_t>(limit - column);
}

inline Vector& vector_at(float* x) { return *reinterpret_cast<Vector*>(x); }

// What the softmax of kLanes rows has come to: maxima, lane by lane a part of the sums, and y
// before it is divided by them.
struct SoftmaxRows {
  float* maximum;  // [kLanes]
  float* sums;     // [kLanes][kLanes]
  float* y;        // [kLanes][width]
  int64_t width;
};

// Calls f(column, which lanes count) for the vectors of a row of scores in which some count: the
// columns before `limit`, with kWhole all of the block. Returns the column after them.
template <bool kWhole, class F>
[[gnu::always_inline]] inline int64_t each_vector(int64_t limit, F f) {
  if constexpr (kWhole) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < kBlock; i += kLanes) f(i, Mask{} == Mask{});
    return kBlock;
  } else {
    int64_t i = 0;
    for (; i < limit; i += kLanes) f(i, before(limit, i));
    return i;
  }
}

// Of kLanes rows of scores, the first `limit` columns, of each row `step` more, become
// exp(scale * score - maximum), the others 0; the rows' maxima, sums and y follow (Milakov &
// Gimelshein, 1805.02867).
template <bool kWhole>
void online_softmax(float* scores, int64_t limit, int64_t step, float scale, SoftmaxRows rows,
                    bool first) {
  Vector tops[kLanes];
  for (int64_t row = 0; row < kLanes; ++row) {
    Vector top = Vector{} - __builtin_inff();
    each_vector<kWhole>(limit + row * step, [&](int64_t i, Mask counts) {
      const Vector x = vector_at(scores + row * kBlock + i);
      top = larger(top, counts ? x : top);
    });
    tops[row] = top;
  }
  const Vector top = largest_lanes(tops) * scale;
  const Vector old = first ? top : vector_at(rows.maximum);
  const Vector maximum = larger(old, top);
  alignas(64) float shrink[kLanes];
  vector_at(shrink) = exp_approx(old - maximum);
  vector_at(rows.maximum) = maximum;
  // Compared, not subtracted: a row of NaN must not hide that another's maximum has grown.
  const Vector grown = maximum > old ? Vector{} + 1.0F : Vector{};
  if (!first && largest_lane(grown) > 0) {
    for (int64_t row = 0; row < kLanes; ++row) {
      float* y = rows.y + row * rows.width;
      for (int64_t i = 0; i < rows.width; i += kLanes) vector_at(y + i) *= shrink[row];
    }
  }
  for (int64_t row = 0; row < kLanes; ++row) {
    const float row_maximum = rows.maximum[row];
    Vector total = {};
    int64_t i = each_vector<kWhole>(limit + row * step, [&](int64_t column, Mask counts) {
      Vector& x = vector_at(scores + row * kBlock + column);
      const Vector weight = exp_approx(x * scale - row_maximum);
      x = counts ? weight : Vector{};
      total += x;
    });
    for (; i < kBlock; i += kLanes) vector_at(scores + row * kBlock + i) = Vector{};
    Vector& sum = vector_at(rows.sums + row * kLanes);
    sum = first ? total : sum * shrink[row] + total;
  }
}

template <class A>
struct ForwardScratch {
  Packed<A> q, k, v;
  typename A::Unit *k_columns, *weight_units;
  float *rotated, *scores, *y, *maximum, *sums;

  ForwardScratch(Scratch& scratch, const Widths<A>& widths, int64_t places, int64_t heads)
      : q(scratch, widths, padded(places) * heads),
        k(scratch, widths, kBlock),
        v(scratch, widths, kBlock) {
    scratch.take(k_columns, widths.stride * kBlock);
    scratch.take(weight_units, kBlock * kBlock);
    scratch.take(rotated, kBlock * widths.numbers);
    scratch.take(scores, kBlock * kBlock);
    scratch.take(y, padded(places) * heads * widths.numbers);
    scratch.take(maximum, padded(places) * heads);
    scratch.take(sums, padded(places) * heads * kLanes);
  }
};

template <class T>
void forward(const AttentionTask<T>& task, const AttentionTask<T>* next, float* memory) {
  using A = typename ArithmeticOf<T>::Type;
  const int64_t first = task.first, last = task.last;
  Ahead<T> ahead(task.size);
  ahead.add(read_only(task.y), task.heads, first, last);
  if (next != nullptr) {
    ahead.add(next->q, next->heads, next->first, next->last);
    ahead.add(next->k, 1, 0, next->last);
    ahead.add(next->v, 1, 0, next->last);
  }
  ahead.spread(calls_beside(first, last, task.heads, 2, task.size));
  const Widths<A> widths(task.size);
  Scratch scratch(memory);
  ForwardScratch<A> s(scratch, widths, last - first, task.heads);
  const int64_t places = padded(last - first);
  for (int64_t head = 0; head < task.heads; ++head) {
    pack_vectors<A>(rotated_vectors(task, task.q, head, first), last - first, task.size, s.rotated,
                    s.q.rows + head * places * widths.stride, widths.stride);
  }
  for (int64_t key = 0; key < last; key += kBlock) {
    const int64_t keys = smaller(kBlock, last - key);
    s.k.pack_rows(rotated_vectors(task, task.k, 0, key), keys, task.size, s.rotated, widths);
    transpose(s.k.rows, widths.stride, padded(keys), widths.stride, s.k_columns, kBlock);
    s.v.pack_rows(vectors(task.v, 0, key), keys, task.size, s.rotated, widths);
    s.v.pack_pairs(keys, widths);
    for (int64_t head = 0; head < task.heads; ++head) {
      for (int64_t query = key > first ? key : first; query < last; query += kBlock) {
        const int64_t queries = smaller(kBlock, last - query);
        const int64_t row = head * places + query - first;
        const bool diagonal = query == key;
        multiply<A>(s.q.row(row, widths), s.k_columns, kBlock, s.scores, kBlock, padded(queries),
                    padded(keys), widths.units, /*add=*/false,
                    diagonal ? Part::kLowerResult : Part::kAll, ahead);
        const bool whole = !diagonal && keys == kBlock;
        const auto softmax = whole ? online_softmax<true> : online_softmax<false>;
        for (int64_t i = 0; i < padded(queries); i += kLanes) {
          softmax(s.scores + i * kBlock, diagonal ? i + 1 : keys, diagonal ? 1 : 0, task.scale,
                  {s.maximum + row + i, s.sums + (row + i) * kLanes,
                   s.y + (row + i) * widths.numbers, widths.numbers},
                  key == 0);
        }
        multiply<A>(A::by_row(s.scores, kBlock, padded(queries), padded(keys), s.weight_units),
                    s.v.pairs, s.v.pair_stride, s.y + row * widths.numbers, widths.numbers,
                    padded(queries), widths.numbers, padded(keys) / A::kNumbers,
                    /*add=*/key != 0, diagonal ? Part::kLowerLeft : Part::kAll, ahead);
      }
    }
  }
  for (int64_t head = 0; head < task.heads; ++head) {
    for (int64_t place = first; place < last; ++place) {
      const int64_t row = head * places + place - first;
      const float sum = sum_of_lanes(vector_at(s.sums + row * kLanes));
      task.logsumexp[head * task.logsumexp_stride + place] = s.maximum[row] + __builtin_logf(sum);
      const float factor = 1.0F / sum;
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
  float *rotated, *weights, *slopes, *dq, *dk, *dv, *delta;

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
    scratch.take(rotated, kBlock * widths.numbers);
    scratch.take(weights, kBlock * kBlock);
    scratch.take(slopes, kBlock * kBlock);
    scratch.take(dq, padded(places) * widths.numbers);
    scratch.take(dk, padded(places) * widths.numbers);
    scratch.take(dv, padded(places) * widths.numbers);
    scratch.take(delta, padded(places));
  }
};

// A block's scores become softmax's weights, and the weights' gradients those of the scores.
template <bool kWhole>
void softmax_backward(float* weights, float* slopes, int64_t queries, int64_t keys, bool diagonal,
                      float scale, const float* logsumexp, const float* delta) {
  for (int64_t row = 0; row < padded(queries); ++row, weights += kBlock, slopes += kBlock) {
    const int64_t limit = row >= queries ? 0 : diagonal ? row + 1 : keys;
    int64_t i = each_vector<kWhole>(limit, [&](int64_t column, Mask counts) {
      Vector& weight = vector_at(weights + column);
      Vector& slope = vector_at(slopes + column);
      const Vector exact = exp_approx(weight * scale - logsumexp[row]);
      weight = counts ? exact : Vector{};
      slope = counts ? exact * (slope - delta[row]) * scale : Vector{};
    });
    for (; i < padded(keys); i += kLanes) {
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

// Gradients of vectors that were rotated.
template <class T>
void store_rotated_back(const AttentionTask<T>& task, const float* x, int64_t x_stride,
                        const HeadVectors<T>& out, int64_t head) {
  if (task.cos == nullptr) {
    store_rows(x, x_stride, out, head, task.length, task.size);
    return;
  }
  for (int64_t place = 0; place < task.length; ++place, x += x_stride) {
    const int64_t angles = place * (task.size / 2);
    rotate(x, task.cos + angles, task.sin + angles, -1.0F, task.size, out.at(head, place));
  }
}

template <class T>
void backward(const AttentionTask<T>& task, const AttentionTask<T>* next, float* memory) {
  using A = typename ArithmeticOf<T>::Type;
  Ahead<T> ahead(task.size);
  ahead.add(read_only(task.dq), task.heads, 0, task.length);
  ahead.add(read_only(task.dk), 1, 0, task.length);
  ahead.add(read_only(task.dv), 1, 0, task.length);
  if (next != nullptr) {
    ahead.add(next->q, next->heads, 0, next->length);
    ahead.add(next->dy, next->heads, 0, next->length);
    ahead.add(read_only(next->y), next->heads, 0, next->length);
    ahead.add(next->k, 1, 0, next->length);
    ahead.add(next->v, 1, 0, next->length);
  }
  ahead.spread(calls_beside(0, task.length, task.heads, 5, task.size));
  const Widths<A> widths(task.size);
  const int64_t width = widths.numbers;
  Scratch scratch(memory);
  BackwardScratch<A> s(scratch, widths, task.length);
  for (int64_t head = 0; head < task.heads; ++head) {
    s.q.pack_rows(rotated_vectors(task, task.q, head, 0), task.length, task.size, s.rotated,
                  widths);
    s.q.pack_pairs(task.length, widths);
    s.dy.pack_rows(vectors(task.dy, head, 0), task.length, task.size, s.rotated, widths);
    s.dy.pack_pairs(task.length, widths);
    for (int64_t place = 0; place < task.length; ++place) {
      const T* y = task.y.at(head, place);
      const T* dy = task.dy.at(head, place);
      if (place + kRowsAhead < task.length) {
        fetch(task.y.at(head, place + kRowsAhead), task.size * int64_t{sizeof(T)});
      }
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t i = 0; i < task.size; ++i) dot += load(y + i) * load(dy + i);
      s.delta[place] = dot;
    }
    const float* logsumexp = task.logsumexp + head * task.logsumexp_stride;
    for (int64_t key = 0; key < task.length; key += kBlock) {
      const int64_t keys = smaller(kBlock, task.length - key);
      s.k.pack_rows(rotated_vectors(task, task.k, 0, key), keys, task.size, s.rotated, widths);
      s.k.pack_pairs(keys, widths);
      transpose(s.k.rows, widths.stride, padded(keys), widths.stride, s.k_columns, kBlock);
      s.v.pack_rows(vectors(task.v, 0, key), keys, task.size, s.rotated, widths);
      transpose(s.v.rows, widths.stride, padded(keys), widths.stride, s.v_columns, kBlock);
      for (int64_t query = key; query < task.length; query += kBlock) {
        const int64_t queries = smaller(kBlock, task.length - query);
        const int64_t rows = padded(queries), columns = padded(keys);
        const bool diagonal = query == key;
        const Part result = diagonal ? Part::kLowerResult : Part::kAll;
        multiply<A>(s.q.row(query, widths), s.k_columns, kBlock, s.weights, kBlock, rows, columns,
                    widths.units, /*add=*/false, result, ahead);
        multiply<A>(s.dy.row(query, widths), s.v_columns, kBlock, s.slopes, kBlock, rows, columns,
                    widths.units, /*add=*/false, result, ahead);
        const bool whole = !diagonal && queries == kBlock && keys == kBlock;
        const auto softmax = whole ? softmax_backward<true> : softmax_backward<false>;
        softmax(s.weights, s.slopes, queries, keys, diagonal, task.scale, logsumexp + query,
                s.delta + query);
        const bool add = head > 0 || !diagonal;
        const Part upper = diagonal ? Part::kUpperLeft : Part::kAll;
        multiply<A>(A::by_column(s.weights, kBlock, rows, columns, s.weight_units),
                    s.dy.pair(query), s.dy.pair_stride, s.dv + key * width, width, columns, width,
                    rows / A::kNumbers, add, upper, ahead);
        multiply<A>(A::by_column(s.slopes, kBlock, rows, columns, s.slope_units), s.q.pair(query),
                    s.q.pair_stride, s.dk + key * width, width, columns, width, rows / A::kNumbers,
                    add, upper, ahead);
        multiply<A>(A::by_row(s.slopes, kBlock, rows, columns, s.slope_rows), s.k.pairs,
                    s.k.pair_stride, s.dq + query * width, width, rows, width,
                    columns / A::kNumbers, key > 0, diagonal ? Part::kLowerLeft : Part::kAll,
                    ahead);
      }
    }
    store_rotated_back(task, s.dq, width, task.dq, head);
  }
  store_rotated_back(task, s.dk, width, task.dk, 0);
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
