// Compiled once an instruction set, with LMTRAIN_ISA naming it (see CMakeLists.txt and
// kernels/cpu/vectors.h).
//
// Positions are taken in blocks of kBlock. A block of queries and one of keys give a square of
// scores; on the diagonal only its lower half. Everything a product reads is packed and padded with
// zeros first, so that no product knows of odd counts or sizes.
#include "kernels/cpu/attention.h"
#include "kernels/cpu/tiles.h"

namespace lmtrain::LMTRAIN_ISA {
namespace {

constexpr int64_t kBlock = kAttentionBlock;

// The bf16 products of the processor where it has them.
template <class T>
struct ArithmeticOf {
  using Type = F32;
};
#ifdef LMTRAIN_MATRIX_UNITS
template <>
struct ArithmeticOf<Bf16> {
  using Type = Bf16MatrixUnits;
};
#elif defined(__AVX512BF16__)
template <>
struct ArithmeticOf<Bf16> {
  using Type = Bf16DotPairs;
};
#endif

// Lanes of the vector at `column` that are before `limit`.
inline Mask before(int64_t limit, int64_t column) {
  return lane_numbers() < static_cast<int32_t>(limit - column);
}

inline Vector& vector_at(float* x) { return *reinterpret_cast<Vector*>(x); }

// The state of the softmax of kLanes rows: the maxima, a part of each sum in every lane, and y
// before it is divided by the sums.
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

// Turns kLanes rows of scores into exp(scale * score - maximum), in the first `limit` columns of
// the first row and in `step` more of each next row; the other columns become 0. The rows' maxima,
// sums and y are brought up to date (Milakov & Gimelshein, 1805.02867).
template <bool kWhole>
void online_softmax(float* scores, int64_t limit, int64_t step, float scale, SoftmaxRows rows,
                    bool first) {
  Vector row_maxima[kLanes];
  for (int64_t row = 0; row < kLanes; ++row) {
    Vector row_max = Vector{} - __builtin_inff();
    each_vector<kWhole>(limit + row * step, [&](int64_t i, Mask counts) {
      const Vector x = vector_at(scores + row * kBlock + i);
      row_max = larger(row_max, counts ? x : row_max);
    });
    row_maxima[row] = row_max;
  }
  const Vector row_max = largest_lanes(row_maxima) * scale;
  const Vector old = first ? row_max : vector_at(rows.maximum);
  const Vector maximum = larger(old, row_max);
  alignas(64) float rescale[kLanes];
  vector_at(rescale) = exp_approx(old - maximum);
  vector_at(rows.maximum) = maximum;
  // Compared, not subtracted: a row of NaN must not hide that another's maximum has grown.
  const Vector grown = maximum > old ? Vector{} + 1.0F : Vector{};
  if (!first && largest_lane(grown) > 0) {
    for (int64_t row = 0; row < kLanes; ++row) {
      float* y = rows.y + row * rows.width;
      for (int64_t i = 0; i < rows.width; i += kLanes) vector_at(y + i) *= rescale[row];
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
    sum = first ? total : sum * rescale[row] + total;
  }
}

template <class A>
struct ForwardScratch {
  Packed<A> q, k, v;
  typename A::Unit *k_columns, *weight_units;
  float *rotated, *scores, *y, *maximum, *sums;

  ForwardScratch(Scratch& scratch, const Widths<A>& widths, int64_t num_queries, int64_t heads)
      : q(scratch, widths, padded(num_queries) * heads),
        k(scratch, widths, kBlock),
        v(scratch, widths, kBlock) {
    scratch.take(k_columns, widths.stride * kBlock);
    scratch.take(weight_units, kBlock * kBlock);
    scratch.take(rotated, kBlock * widths.numbers);
    scratch.take(scores, kBlock * kBlock);
    scratch.take(y, padded(num_queries) * heads * widths.numbers);
    scratch.take(maximum, padded(num_queries) * heads);
    scratch.take(sums, padded(num_queries) * heads * kLanes);
  }
};

template <class T>
void forward(const AttentionTask<T>& task, const AttentionTask<T>* next, float* memory) {
  using A = typename ArithmeticOf<T>::Type;
  [[maybe_unused]] const typename A::Registers registers;
  const int64_t first = task.first, last = task.last;
  Prefetch<T> prefetch(task.size);
  prefetch.add(read_only(task.y), task.heads, first, last);
  if (next != nullptr) {
    prefetch.add(next->q, next->heads, next->first, next->last);
    prefetch.add(next->k, 1, 0, next->last);
    prefetch.add(next->v, 1, 0, next->last);
  }
  prefetch.spread(calls_beside<A>(first, last, task.heads, 2, task.size));
  const Widths<A> widths(task.size);
  Scratch scratch(memory);
  ForwardScratch<A> s(scratch, widths, last - first, task.heads);
  const int64_t padded_queries = padded(last - first);
  for (int64_t head = 0; head < task.heads; ++head) {
    pack_rotated<A>(Vectors<T>(task.q, head, first), Angles(task, first), last - first, task.size,
                    s.rotated, s.q.rows + head * padded_queries * widths.stride, widths.stride);
  }
  for (int64_t key = 0; key < last; key += kBlock) {
    const int64_t keys = smaller(kBlock, last - key);
    s.k.pack_rotated(Vectors<T>(task.k, 0, key), Angles(task, key), keys, task.size, s.rotated,
                     widths);
    transpose(s.k.rows, widths.stride, padded(keys), widths.stride, s.k_columns, kBlock);
    s.v.pack_rows(Vectors<T>(task.v, 0, key), keys, task.size, widths);
    s.v.pack_pairs(keys, widths);
    for (int64_t head = 0; head < task.heads; ++head) {
      for (int64_t query = key > first ? key : first; query < last; query += kBlock) {
        const int64_t queries = smaller(kBlock, last - query);
        const int64_t row = head * padded_queries + query - first;
        const bool diagonal = query == key;
        multiply<A>(s.q.row(row, widths), s.k_columns, kBlock, s.scores, kBlock, padded(queries),
                    padded(keys), widths.units, /*add=*/false,
                    diagonal ? Part::kLowerResult : Part::kAll, prefetch);
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
                    /*add=*/key != 0, diagonal ? Part::kLowerLeft : Part::kAll, prefetch);
      }
    }
  }
  for (int64_t head = 0; head < task.heads; ++head) {
    for (int64_t query = first; query < last; ++query) {
      const int64_t row = head * padded_queries + query - first;
      const float sum = sum_of_lanes(vector_at(s.sums + row * kLanes));
      task.logsumexp[head * task.logsumexp_stride + query] = s.maximum[row] + __builtin_logf(sum);
      const float factor = 1.0F / sum;
      const float* y = s.y + row * widths.numbers;
      T* out = task.y.at(head, query);
#pragma omp simd
      for (int64_t i = 0; i < task.size; ++i) store(out + i, y[i] * factor);
    }
  }
}

template <class A>
struct BackwardScratch {
  Packed<A> q, dy, k, v;
  typename A::Unit *k_columns, *v_columns, *weight_units, *ds_units, *ds_rows;
  float *rotated, *weights, *ds, *dq, *dk, *dv, *delta;

  BackwardScratch(Scratch& scratch, const Widths<A>& widths, int64_t length)
      : q(scratch, widths, length),
        dy(scratch, widths, length),
        k(scratch, widths, kBlock),
        v(scratch, widths, kBlock) {
    scratch.take(k_columns, widths.stride * kBlock);
    scratch.take(v_columns, widths.stride * kBlock);
    scratch.take(weight_units, kBlock * kBlock);
    scratch.take(ds_units, kBlock * kBlock);
    scratch.take(ds_rows, kBlock * kBlock);
    scratch.take(rotated, kBlock * widths.numbers);
    scratch.take(weights, kBlock * kBlock);
    scratch.take(ds, kBlock * kBlock);
    scratch.take(dq, padded(length) * widths.numbers);
    scratch.take(dk, padded(length) * widths.numbers);
    scratch.take(dv, padded(length) * widths.numbers);
    scratch.take(delta, padded(length));
  }
};

// Turns a block's scores into softmax's weights, and the weights' gradients into the scores'.
template <bool kWhole>
void softmax_backward(float* weights, float* ds, int64_t queries, int64_t keys, bool diagonal,
                      float scale, const float* logsumexp, const float* delta) {
  for (int64_t row = 0; row < padded(queries); ++row, weights += kBlock, ds += kBlock) {
    const int64_t limit = row >= queries ? 0 : diagonal ? row + 1 : keys;
    int64_t i = each_vector<kWhole>(limit, [&](int64_t column, Mask counts) {
      Vector& weight = vector_at(weights + column);
      Vector& ds_value = vector_at(ds + column);
      const Vector exact = exp_approx(weight * scale - logsumexp[row]);
      weight = counts ? exact : Vector{};
      ds_value = counts ? exact * (ds_value - delta[row]) * scale : Vector{};
    });
    for (; i < padded(keys); i += kLanes) {
      vector_at(weights + i) = vector_at(ds + i) = Vector{};
    }
  }
}

template <class T>
void store_rows(const float* x, int64_t x_stride, const HeadVectors<T>& out, int64_t length,
                int64_t size) {
  for (int64_t position = 0; position < length; ++position, x += x_stride) {
    T* to = out.at(0, position);
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) store(to + i, x[i]);
  }
}

// Gradients of vectors that were rotated.
template <class T>
void store_rotated_back(const AttentionTask<T>& task, const float* x, int64_t x_stride,
                        const HeadVectors<T>& out, int64_t head) {
  for (int64_t position = 0; position < task.length; ++position, x += x_stride) {
    rotate(x, Angles(task, position), -1.0F, task.size, out.at(head, position));
  }
}

template <class T>
void backward(const AttentionTask<T>& task, const AttentionTask<T>* next, float* memory) {
  using A = typename ArithmeticOf<T>::Type;
  [[maybe_unused]] const typename A::Registers registers;
  Prefetch<T> prefetch(task.size);
  prefetch.add(read_only(task.dq), task.heads, 0, task.length);
  prefetch.add(read_only(task.dk), 1, 0, task.length);
  prefetch.add(read_only(task.dv), 1, 0, task.length);
  if (next != nullptr) {
    prefetch.add(next->q, next->heads, 0, next->length);
    prefetch.add(next->dy, next->heads, 0, next->length);
    prefetch.add(read_only(next->y), next->heads, 0, next->length);
    prefetch.add(next->k, 1, 0, next->length);
    prefetch.add(next->v, 1, 0, next->length);
  }
  prefetch.spread(calls_beside<A>(0, task.length, task.heads, 5, task.size));
  const Widths<A> widths(task.size);
  const int64_t width = widths.numbers;
  Scratch scratch(memory);
  BackwardScratch<A> s(scratch, widths, task.length);
  for (int64_t head = 0; head < task.heads; ++head) {
    s.q.pack_rotated(Vectors<T>(task.q, head, 0), Angles(task, 0), task.length, task.size,
                     s.rotated, widths);
    s.q.pack_pairs(task.length, widths);
    s.dy.pack_rows(Vectors<T>(task.dy, head, 0), task.length, task.size, widths);
    s.dy.pack_pairs(task.length, widths);
    for (int64_t query = 0; query < task.length; ++query) {
      const T* y = task.y.at(head, query);
      const T* dy = task.dy.at(head, query);
      if (query + kPrefetchRows < task.length) {
        fetch(task.y.at(head, query + kPrefetchRows), task.size * int64_t{sizeof(T)});
      }
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t i = 0; i < task.size; ++i) dot += load(y + i) * load(dy + i);
      s.delta[query] = dot;
    }
    const float* logsumexp = task.logsumexp + head * task.logsumexp_stride;
    for (int64_t key = 0; key < task.length; key += kBlock) {
      const int64_t keys = smaller(kBlock, task.length - key);
      s.k.pack_rotated(Vectors<T>(task.k, 0, key), Angles(task, key), keys, task.size, s.rotated,
                       widths);
      s.k.pack_pairs(keys, widths);
      transpose(s.k.rows, widths.stride, padded(keys), widths.stride, s.k_columns, kBlock);
      s.v.pack_rows(Vectors<T>(task.v, 0, key), keys, task.size, widths);
      transpose(s.v.rows, widths.stride, padded(keys), widths.stride, s.v_columns, kBlock);
      for (int64_t query = key; query < task.length; query += kBlock) {
        const int64_t queries = smaller(kBlock, task.length - query);
        const int64_t rows = padded(queries), columns = padded(keys);
        const bool diagonal = query == key;
        const Part result = diagonal ? Part::kLowerResult : Part::kAll;
        multiply<A>(s.q.row(query, widths), s.k_columns, kBlock, s.weights, kBlock, rows, columns,
                    widths.units, /*add=*/false, result, prefetch);
        multiply<A>(s.dy.row(query, widths), s.v_columns, kBlock, s.ds, kBlock, rows, columns,
                    widths.units, /*add=*/false, result, prefetch);
        const bool whole = !diagonal && queries == kBlock && keys == kBlock;
        const auto softmax = whole ? softmax_backward<true> : softmax_backward<false>;
        softmax(s.weights, s.ds, queries, keys, diagonal, task.scale, logsumexp + query,
                s.delta + query);
        const bool add = head > 0 || !diagonal;
        const Part upper = diagonal ? Part::kUpperLeft : Part::kAll;
        multiply<A>(A::by_column(s.weights, kBlock, rows, columns, s.weight_units),
                    s.dy.pair(query), s.dy.pair_stride, s.dv + key * width, width, columns, width,
                    rows / A::kNumbers, add, upper, prefetch);
        multiply<A>(A::by_column(s.ds, kBlock, rows, columns, s.ds_units), s.q.pair(query),
                    s.q.pair_stride, s.dk + key * width, width, columns, width, rows / A::kNumbers,
                    add, upper, prefetch);
        multiply<A>(A::by_row(s.ds, kBlock, rows, columns, s.ds_rows), s.k.pairs, s.k.pair_stride,
                    s.dq + query * width, width, rows, width, columns / A::kNumbers, key > 0,
                    diagonal ? Part::kLowerLeft : Part::kAll, prefetch);
      }
    }
    store_rotated_back(task, s.dq, width, task.dq, head);
  }
  store_rotated_back(task, s.dk, width, task.dk, 0);
  store_rows(s.dv, width, task.dv, task.length, task.size);
}

template <class T>
int64_t forward_scratch(int64_t num_queries, int64_t size, int64_t heads) {
  using A = typename ArithmeticOf<T>::Type;
  Scratch counted(nullptr);
  const ForwardScratch<A> parts(counted, Widths<A>(size), num_queries, heads);
  return counted.used();
}

template <class T>
int64_t backward_scratch(int64_t length, int64_t size) {
  using A = typename ArithmeticOf<T>::Type;
  Scratch counted(nullptr);
  const BackwardScratch<A> parts(counted, Widths<A>(size), length);
  return counted.used();
}

template <class T>
constexpr CpuAttention<T> attention_table() {
  return {forward<T>, backward<T>, forward_scratch<T>, backward_scratch<T>};
}

}  // namespace

// Instructions for bf16 change nothing in fp32, so fp32 is not compiled again for them.
#ifndef __AVX512BF16__
extern const CpuAttention<float> kAttentionFloat;
const CpuAttention<float> kAttentionFloat = attention_table<float>();
#endif
extern const CpuAttention<Bf16> kAttentionBf16;
const CpuAttention<Bf16> kAttentionBf16 = attention_table<Bf16>();

}  // namespace lmtrain::LMTRAIN_ISA
