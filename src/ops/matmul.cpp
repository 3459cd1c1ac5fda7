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

// Whether results are rounded sums; else they are sums themselves, and hold their own.
template <class T>
constexpr bool kRounds = !std::is_same_v<T, float>;

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

// Of a part of a matrix, along its rows or columns, whichever are contiguous.
template <class T>
Lines lines(const GemmMatrix<T>& x, int64_t rows, int64_t columns) {
  constexpr int64_t kMisaligned = 60;  // a strip's last line begins up to so many bytes later
  const auto bytes = [](int64_t numbers) { return numbers * int64_t{sizeof(T)}; };
  return x.column_stride == 1
             ? Lines(x.data, bytes(columns) + kMisaligned, bytes(x.row_stride), rows)
             : Lines(x.data, bytes(rows) + kMisaligned, bytes(x.column_stride), columns);
}

// Of a part, the rows that are the share of terms [term, term + depth) of all.
MatrixPart share_of(const MatrixPart& part, int64_t term, int64_t depth, int64_t terms) {
  const int64_t first = part.rows * term / terms, end = part.rows * (term + depth) / terms;
  return {part.row + first, part.column, end - first, part.columns};
}

// The matrices beside a fused one, there.
template <class T>
void add_beside(const FusedMatrix<T>& fused, const MatrixPart& there, LinesList& list) {
  if (there.rows <= 0) return;
  for (const at::Tensor& x : fused.beside) {
    list.add(lines(part(matrix<T>(x), there.row, there.column), there.rows, there.columns));
  }
}

// A left operand, from `first_term` on: in memory, or computed where it is multiplied.
template <class T>
struct LeftOperand {
  int64_t rows;
  GemmMatrix<T> matrix;
  const FusedMatrix<T>* fused = nullptr;
  int64_t first_term = 0;
};

// A result: in memory, or consumed where it is computed.
template <class T>
struct Result {
  GemmRows<T> rows;
  const FusedMatrix<T>* fused = nullptr;
};

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

// Of columns, so that every thread has several pieces of so many tiles of rows.
int64_t groups_for_threads(int64_t tiles) {
  return parts(int64_t{4} * at::get_num_threads(), tiles);
}

// Memory of a thread's own for the numbers of a piece.
template <class T>
class OwnRows {
 public:
  OwnRows(int64_t rows, int64_t columns, bool wanted)
      : memory_(floats(wanted ? parts(rows * columns * int64_t{sizeof(T)}, sizeof(float)) : 0)),
        columns_(columns) {}
  GemmRows<T> get() const { return {static_cast<T*>(memory_.data_ptr()), columns_}; }

 private:
  at::Tensor memory_;
  int64_t columns_;
};

// a b, or sums + a b, for the columns and terms of b that are packed, of which `first_column` is
// the first: into `c` with the last of them, where that has room, else into `sums`. Without sums, a
// thread keeps those of its piece.
template <class T>
void multiply_packed(const LeftOperand<T>& a, const Packed<T>& b, int64_t first_column,
                     const GemmRows<float>& sums, bool add, const Result<T>& c) {
  const CpuGemm<T>& gemm = b.gemm;
  // Pieces are whole tiles high and whole panels wide. Where rows alone are too few for the
  // threads, columns are divided too.
  const int64_t tiles = parts(a.rows, gemm.tile_rows);
  const int64_t rows_at_once = a.matrix.column_stride == 1 ? kGemmRows : kGemmRowsOfColumns;
  const int64_t groups = std::max(parts(b.columns, kSums / rows_at_once),
                                  std::min(b.num_panels(), groups_for_threads(tiles)));
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
    constexpr int64_t kOdd = 16;  // an odd multiple of which is no distance of kFarApart
    const at::Tensor scratch = floats(gemm.scratch);
    const OwnRows<T> own_left(rows_at_once, (2 * parts(b.terms, 2 * kOdd) + 1) * kOdd,
                              a.fused != nullptr);
    const OwnRows<float> own_sums(rows_at_once, wide, sums.data == nullptr);
    const OwnRows<T> own_result(rows_at_once, wide, kRounds<T> && c.fused != nullptr);
    for (Pieces left = take(work); left; left = left ? left : take(work)) {
      const int64_t panel = left.begin / tiles * group;
      const int64_t tile = left.begin % tiles;
      const int64_t count = std::min({left.end - left.begin, tiles - tile, tiles_at_once});
      const int64_t column = panel * gemm.panel_columns;
      const MatrixPart piece = {tile * gemm.tile_rows, first_column + column,
                                std::min(a.rows - tile * gemm.tile_rows, count * gemm.tile_rows),
                                std::min(b.columns - column, wide)};
      const int64_t next_row = piece.row + piece.rows;
      const int64_t next_rows = std::min(piece.rows, a.rows - next_row);
      GemmMatrix<T> rows = part(a.matrix, piece.row, 0);
      if (a.fused != nullptr) {
        const GemmRows<T> own = own_left.get();
        a.fused->visit({piece.row, a.first_term, piece.rows, b.terms}, own.data, own.stride);
        rows = {own.data, own.stride, 1};
      }
      const GemmRows<float> piece_sums =
          sums.data == nullptr ? own_sums.get() : part(sums, piece.row, column);
      GemmRows<T> rounded = {};
      if (kRounds<T> && c.fused != nullptr) rounded = own_result.get();
      if (kRounds<T> && c.rows.data != nullptr) rounded = part(c.rows, piece.row, column);
      // All terms of a few rows, so that their sums stay in the cache.
      for (int64_t term = 0; term < b.terms; term += b.depth) {
        const bool last = term + b.depth >= b.terms;
        const int64_t depth = b.depth_at(term);
        LinesList next;
        if (c.fused != nullptr) add_beside(*c.fused, share_of(piece, term, depth, b.terms), next);
        if (a.fused != nullptr) {
          add_beside(*a.fused, {next_row, a.first_term + term, next_rows, depth}, next);
        } else if (!last) {
          next.add(lines(part(rows, 0, term + depth), piece.rows, b.depth_at(term + depth)));
        } else if (next_rows > 0) {
          next.add(lines(part(a.matrix, next_row, 0), next_rows, b.depth_at(0)));
        }
        gemm.multiply({part(rows, 0, term), piece.rows, depth}, next, b.panel(term, panel),
                      piece.columns, piece_sums, add || term > 0, last ? rounded : GemmRows<T>{},
                      scratch.data_ptr<float>());
      }
      if (c.fused != nullptr) {
        if constexpr (kRounds<T>) {
          c.fused->visit(piece, rounded.data, rounded.stride);
        } else {
          c.fused->visit(piece, piece_sums.data, piece_sums.stride);
        }
      }
      left.begin += count;
    }
  });
}

// How the right operand is divided: `depth` terms are summed at a time, and of `wide` columns
// `deep` terms are packed, or all.
template <class T>
struct Blocks {
  int64_t depth, wide, deep;
  Blocks(const CpuGemm<T>& gemm, int64_t terms, int64_t columns, bool all_terms) {
    const int64_t panel = gemm.panel_columns, unit = gemm.unit;
    depth = parts(parts(terms, parts(terms, kGemmDepth * unit)), unit) * unit;
    const int64_t most = kRounds<T> ? kPackedColumns * unit / 2 : kPackedColumns;
    wide = std::min(most, parts(columns, panel) * panel);
    deep = std::max<int64_t>(1, kPackedUnits * unit / (wide * depth)) * depth;
    if (all_terms && deep < terms) {
      deep = parts(terms, depth) * depth;
      wide = std::max<int64_t>(1, kPackedUnits * unit / (panel * deep)) * panel;
    }
  }
};

// a b_KN into c. A result that is consumed is whole when it is: then all terms are taken at once.
template <class T>
void multiply(const CpuGemm<T>& gemm, const LeftOperand<T>& a, const at::Tensor& b_KN,
              const Result<T>& c) {
  const int64_t terms = b_KN.size(0), columns = b_KN.size(1);
  const auto [depth, wide, deep] = Blocks<T>(gemm, terms, columns, c.fused != nullptr);
  const at::Tensor packed = floats(parts(std::min(deep, terms), gemm.unit) * wide);
  const at::Tensor sums = floats(kRounds<T> && terms > deep ? a.rows * wide : 0);
  for (int64_t column = 0; column < columns; column += wide) {
    for (int64_t term = 0; term < terms; term += deep) {
      const Packed<T> b = {gemm, packed.data_ptr<float>(), std::min(deep, terms - term),
                           std::min(wide, columns - column), depth};
      pack(part(matrix<T>(b_KN), term, column), b);
      LeftOperand<T> left = a;
      left.first_term = term;
      if (a.fused == nullptr) left.matrix = part(a.matrix, 0, term);
      Result<T> result = c;
      if (c.fused == nullptr) result.rows = part(c.rows, 0, column);
      if constexpr (kRounds<T>) {
        if (term + deep < terms) result.rows = {};
        const bool has_sums = terms > deep;
        multiply_packed(left, b, column, {has_sums ? sums.data_ptr<float>() : nullptr, wide},
                        /*add=*/term > 0, result);
      } else {
        multiply_packed(left, b, column, result.rows, /*add=*/term > 0, result);
      }
    }
  }
}

template <class T>
void multiply(const CpuGemm<T>& gemm, const at::Tensor& a_MK, const at::Tensor& b_KN,
              const at::Tensor& c_MN) {
  if (b_KN.size(0) == 0) {
    c_MN.zero_();
    return;
  }
  multiply<T>(gemm, {a_MK.size(0), matrix<T>(a_MK)}, b_KN, {{elements<T>(c_MN), c_MN.stride(0)}});
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

// Whether our product is the one to take, by the right operand and the rows of the left one.
bool is_worth_packing(int64_t rows, const at::Tensor& b) {
  return std::min(rows, b.size(-1)) >= kFew && has_a_contiguous_side(b);
}

// f(our product for a's elements), where that is the one to take. Matrices are the last dimensions.
template <class F>
void with_gemm(const at::Tensor& a, const at::Tensor& b, const F& f) {
  if (!has_cpu_kernel(a) || !is_worth_packing(a.size(-2), b) || !has_a_contiguous_side(a)) return;
  on_cpu(a, [&]<class T>(T) {
    if (const CpuGemm<T>* gemm = fastest_cpu_gemm<T>()) f(*gemm);
  });
}

// Our product, where it is the one to take; else null.
template <class T>
const CpuGemm<T>* fusing_gemm(int64_t rows, const at::Tensor& b_KN) {
  return is_worth_packing(rows, b_KN) && b_KN.size(0) > 0 ? fastest_cpu_gemm<T>() : nullptr;
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

template <class T>
void visit_all(const FusedMatrix<T>& fused, const at::Tensor& x) {
  const int64_t width = x.size(1);
  share_work(x.size(0), grain_rows(width), [&](int64_t begin, int64_t end) {
    fused.visit({begin, 0, end - begin, width}, elements<T>(x) + begin * x.stride(0), x.stride(0));
  });
}

template <class T>
at::Tensor product_of(const FusedMatrix<T>& a, int64_t rows, const at::Tensor& b_KN) {
  const CpuGemm<T>* gemm = fusing_gemm<T>(rows, b_KN);
  // Rows that are few for the threads would be computed for each of many groups of columns.
  constexpr int64_t kMostGroups = 2;
  if (gemm != nullptr && groups_for_threads(parts(rows, gemm->tile_rows)) <= kMostGroups) {
    const at::Tensor c_MN = at::empty({rows, b_KN.size(1)}, b_KN.options());
    multiply<T>(*gemm, {rows, {nullptr, 0, 1}, &a}, b_KN, {{elements<T>(c_MN), c_MN.stride(0)}});
    return c_MN;
  }
  const at::Tensor a_MK = at::empty({rows, b_KN.size(0)}, b_KN.options());
  visit_all(a, a_MK);
  return product(a_MK, b_KN);
}

template <class T>
void product_into(const at::Tensor& a_MK, const at::Tensor& b_KN, const FusedMatrix<T>& c) {
  if (const CpuGemm<T>* gemm = fusing_gemm<T>(a_MK.size(0), b_KN);
      gemm != nullptr && has_a_contiguous_side(a_MK)) {
    multiply<T>(*gemm, {a_MK.size(0), matrix<T>(a_MK)}, b_KN, {{}, &c});
    return;
  }
  visit_all(c, product(a_MK, b_KN));
}

template void visit_all(const FusedMatrix<float>&, const at::Tensor&);
template void visit_all(const FusedMatrix<Bf16>&, const at::Tensor&);
template at::Tensor product_of(const FusedMatrix<float>&, int64_t, const at::Tensor&);
template at::Tensor product_of(const FusedMatrix<Bf16>&, int64_t, const at::Tensor&);
template void product_into(const at::Tensor&, const at::Tensor&, const FusedMatrix<float>&);
template void product_into(const at::Tensor&, const at::Tensor&, const FusedMatrix<Bf16>&);

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
