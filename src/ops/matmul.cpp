#include "ops/matmul.h"

#include "ops/cpu_gemm.h"
#include "ops/dispatch.h"
#include "ops/shared_work.h"
#include "ops/torch_headers.h"

namespace lmtrain {
namespace {

// Of the right operand, columns and units that are packed at a time: 4 MB, which stay in the cache.
// Units that are widened numbers are twice as many, so columns are half: else sums of few terms
// would have to be kept for every column.
constexpr int64_t kPackedColumns = 4096;
constexpr int64_t kPackedUnits = int64_t{1} << 20;
// Sums that a thread works on at a time, which stay in its own cache.
constexpr int64_t kSums = int64_t{72} << 10;
// With fewer rows or columns, packing the larger operand costs more than it saves.
constexpr int64_t kFew = 16;

int64_t parts(int64_t count, int64_t size) { return (count + size - 1) / size; }

// Scratch of the calling thread, or of those that it waits for.
at::Tensor floats(int64_t count) { return at::detail::empty_cpu({count}, at::kFloat); }

template <class T>
GemmMatrix<T> matrix(const at::Tensor& x) {
  return {elements<T>(x), x.stride(0), x.stride(1)};
}

template <class T>
GemmMatrix<T> part(const GemmMatrix<T>& x, int64_t row, int64_t column) {
  return {x.at(row, column), x.row_stride, x.column_stride};
}

template <class T>
GemmRows<T> part(const GemmRows<T>& x, int64_t row, int64_t column) {
  return {x.data + row * x.stride + column, x.stride};
}

// A block of the right operand, `depth` terms after `depth` terms, each in panels.
template <class T>
struct Packed {
  const CpuGemm<T>& gemm;
  float* data;
  int64_t terms, columns;
  int64_t depth;  // of all but the last; whole units

  int64_t num_panels() const { return parts(columns, gemm.panel_columns); }
  int64_t depth_at(int64_t term) const { return std::min(depth, terms - term); }
  float* panel(int64_t term, int64_t panel) const {
    return data + gemm.panel_columns *
                      (term / gemm.unit * num_panels() + panel * parts(depth_at(term), gemm.unit));
  }
};

template <class T>
void pack(const GemmMatrix<T>& b, const Packed<T>& packed) {
  const int64_t wide = packed.gemm.panel_columns;
  share_work(packed.num_panels(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t column = panel * wide;
      for (int64_t term = 0; term < packed.terms; term += packed.depth) {
        packed.gemm.pack_panel(part(b, term, column), packed.depth_at(term),
                               std::min(wide, packed.columns - column), packed.panel(term, panel));
      }
    }
  });
}

// a b, or sums + a b, for the columns and terms of b that are packed: into `c` where it has data,
// else into `sums`. Without sums, a thread keeps those of its piece.
template <class T>
void multiply_packed(const GemmMatrix<T>& a, int64_t rows, const Packed<T>& b,
                     const GemmRows<float>& sums, bool add, const GemmRows<T>& c) {
  const CpuGemm<T>& gemm = b.gemm;
  // Pieces are whole tiles high and whole panels wide. Where rows alone are too few for the
  // threads, columns are divided too.
  const int64_t tiles = parts(rows, gemm.tile_rows);
  const int64_t rows_at_once = a.column_stride == 1 ? kGemmRows : kGemmRowsOfColumns;
  const int64_t groups =
      std::max(parts(b.columns, kSums / rows_at_once),
               std::min(b.num_panels(), parts(int64_t{4} * at::get_num_threads(), tiles)));
  const int64_t group = parts(b.num_panels(), groups);
  const int64_t pieces = parts(b.num_panels(), group) * tiles;
  const int64_t tiles_at_once = rows_at_once / gemm.tile_rows;
  const auto take = [tiles_at_once](SharedWork& from) {
    constexpr int64_t kSmallestPart = 3;
    return from.take_some(std::max<int64_t>(1, tiles_at_once / kSmallestPart), tiles_at_once);
  };
  SharedWork work(pieces);
  work.run(1, [&] {
    const int64_t wide = group * gemm.panel_columns;
    const at::Tensor scratch = floats(gemm.scratch);
    const at::Tensor own_sums = floats(sums.data == nullptr ? rows_at_once * wide : 0);
    for (Pieces left = take(work); left; left = left ? left : take(work)) {
      const int64_t panel = left.begin / tiles * group;
      const int64_t tile = left.begin % tiles;
      const int64_t count = std::min({left.end - left.begin, tiles - tile, tiles_at_once});
      const int64_t row = tile * gemm.tile_rows, column = panel * gemm.panel_columns;
      const int64_t high = std::min(rows - row, count * gemm.tile_rows);
      const GemmRows<float> piece_sums = sums.data == nullptr
                                             ? GemmRows<float>{own_sums.data_ptr<float>(), wide}
                                             : part(sums, row, column);
      // All terms of a few rows, so that their sums stay in the cache.
      for (int64_t term = 0; term < b.terms; term += b.depth) {
        const bool last = term + b.depth >= b.terms;
        const GemmBlock<T> block = {part(a, row, term), high, b.depth_at(term)};
        GemmBlock<T> next = {};
        if (!last) {
          next = {part(a, row, term + b.depth), high, b.depth_at(term + b.depth)};
        } else if (row + high < rows) {
          next = {part(a, row + high, 0), std::min(high, rows - row - high), b.depth_at(0)};
        }
        gemm.multiply(block, next, b.panel(term, panel), std::min(b.columns - column, wide),
                      piece_sums, add || term > 0,
                      last && c.data != nullptr ? part(c, row, column) : GemmRows<T>{},
                      scratch.data_ptr<float>());
      }
      left.begin += count;
    }
  });
}

// a_MK b_KN into c_MN, whose rows are contiguous.
template <class T>
void multiply(const CpuGemm<T>& gemm, const at::Tensor& a_MK, const at::Tensor& b_KN,
              const at::Tensor& c_MN) {
  constexpr bool kRounds = !std::is_same_v<T, float>;  // else the result holds its own sums
  const int64_t rows = a_MK.size(0), terms = a_MK.size(1), columns = b_KN.size(1);
  if (terms == 0) {
    c_MN.zero_();
    return;
  }
  const int64_t panel = gemm.panel_columns, unit = gemm.unit;
  const int64_t depth = parts(parts(terms, parts(terms, kGemmDepth * unit)), unit) * unit;
  const int64_t most = kRounds ? kPackedColumns * unit / 2 : kPackedColumns;
  const int64_t wide = std::min(most, parts(columns, panel) * panel);
  const int64_t deep = std::max<int64_t>(1, kPackedUnits * unit / (wide * depth)) * depth;
  const at::Tensor packed = floats(parts(std::min(deep, terms), unit) * wide);
  const at::Tensor sums_MN = floats(kRounds && terms > deep ? rows * wide : 0);
  for (int64_t column = 0; column < columns; column += wide) {
    for (int64_t term = 0; term < terms; term += deep) {
      const Packed<T> b = {gemm, packed.data_ptr<float>(), std::min(deep, terms - term),
                           std::min(wide, columns - column), depth};
      pack(part(matrix<T>(b_KN), term, column), b);
      const GemmMatrix<T> a = part(matrix<T>(a_MK), 0, term);
      const GemmRows<T> c = {elements<T>(c_MN) + column, c_MN.stride(0)};
      if constexpr (kRounds) {
        const bool last = term + deep >= terms;
        const GemmRows<float> sums = {terms > deep ? sums_MN.data_ptr<float>() : nullptr, wide};
        multiply_packed(a, rows, b, sums, /*add=*/term > 0, last ? c : GemmRows<T>{});
      } else {
        multiply_packed(a, rows, b, c, /*add=*/term > 0, GemmRows<T>{});
      }
    }
  }
}

template <class T>
at::Tensor product(const CpuGemm<T>& gemm, const at::Tensor& a_MK, const at::Tensor& b_KN) {
  const at::Tensor c_MN = at::empty({a_MK.size(0), b_KN.size(1)}, a_MK.options());
  multiply(gemm, a_MK, b_KN, c_MN);
  return c_MN;
}

// Whether the transposed product of b^T and a^T is had sooner. Both operands are contiguous along
// the result, so either can be the right one, which costs more to pack: the narrower should be.
bool is_faster_transposed(const at::Tensor& a_MK, const at::Tensor& b_KN) {
  const int64_t rows = a_MK.size(0), terms = a_MK.size(1), columns = b_KN.size(1);
  return a_MK.stride(0) == 1 && b_KN.stride(1) == 1 && (columns - rows) * terms > rows * columns;
}

// Whether rows are contiguous, or columns, of each matrix of a batch.
bool has_a_contiguous_side(const at::Tensor& x) {
  const auto is_contiguous = [&](int64_t row, int64_t column) {
    return x.stride(column) == 1 && x.stride(row) >= x.size(column);
  };
  return is_contiguous(-2, -1) || is_contiguous(-1, -2);
}

// f(our product for a's elements), where that is the one to take. Matrices are the last dimensions.
template <class F>
void with_gemm(const at::Tensor& a, const at::Tensor& b, const F& f) {
  if (!has_cpu_kernel(a) || std::min(a.size(-2), b.size(-1)) < kFew) return;
  if (!has_a_contiguous_side(a) || !has_a_contiguous_side(b)) return;
  on_cpu(a, [&]<class T>(T) {
    if (const CpuGemm<T>* gemm = fastest_cpu_gemm<T>()) f(*gemm);
  });
}

}  // namespace

at::Tensor product(const at::Tensor& a_MK, const at::Tensor& b_KN) {
  at::Tensor c_MN;
  with_gemm(a_MK, b_KN, [&](const auto& gemm) {
    c_MN = is_faster_transposed(a_MK, b_KN) ? product(gemm, b_KN.t(), a_MK.t()).t().contiguous()
                                            : product(gemm, a_MK, b_KN);
  });
  return c_MN.defined() ? c_MN : at::mm(a_MK, b_KN);
}

void product_into(const at::Tensor& a_MK, const at::Tensor& b_KN, at::Tensor c_MN) {
  bool done = false;
  with_gemm(a_MK, b_KN, [&](const auto& gemm) {
    multiply(gemm, a_MK, b_KN, c_MN);
    done = true;
  });
  if (!done) at::mm_out(c_MN, a_MK, b_KN);
}

at::Tensor batched_product(const at::Tensor& a_BMK, const at::Tensor& b_BKN) {
  at::Tensor c_BMN;
  with_gemm(a_BMK, b_BKN, [&](const auto& gemm) {
    const int64_t count = a_BMK.size(0);
    c_BMN = at::empty({count, a_BMK.size(1), b_BKN.size(2)}, a_BMK.options());
    const auto multiply_some = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) multiply(gemm, a_BMK[i], b_BKN[i], c_BMN[i]);
    };
    // Whole products to a thread where there are enough; else the threads share each.
    if (count < at::get_num_threads()) {
      multiply_some(0, count);
    } else {
      share_work(count, 1, multiply_some);
    }
  });
  return c_BMN.defined() ? c_BMN : at::bmm(a_BMK, b_BKN);
}

}  // namespace lmtrain
