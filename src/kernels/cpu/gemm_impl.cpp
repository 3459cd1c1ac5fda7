// Compiled once an instruction set, with LMTRAIN_ISA naming it (see CMakeLists.txt and
// kernels/cpu/vectors.h).
#include <cstddef>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/cpu/units.h"

namespace lmtrain::LMTRAIN_ISA {
namespace {

// A register tile of kTileRows x kTileVectors sums leaves room for its operands.
#if defined(__AVX512F__)
constexpr int kTileRows = 12;
#else
constexpr int kTileRows = 6;
#endif
constexpr int kTileVectors = 2;
// The number of units that are multiplied between two calls of the work beside them. AVX-512 has
// two cycles for each row of a tile's unit, others one: too few for a call at every unit.
#if defined(__AVX512F__)
constexpr int kUnitsTogether = 1;
#else
constexpr int kUnitsTogether = 4;
#endif
constexpr int64_t kColumns = kTileVectors * kLanes;
// Rows packed one behind the other lie this far apart, and tiles of them: not by a power of two,
// which would put them into the same few lines of the cache.
constexpr int64_t kRowStride = kGemmKC + 16;
constexpr int64_t kTileStride = kGemmKC * kTileRows + 16;
static_assert(kGemmRows % kTileRows == 0 && kGemmRowsOfColumns % kTileRows == 0);
constexpr int64_t kPackedByRow = kGemmRows * kRowStride;
constexpr int64_t kPackedByUnit = kGemmRowsOfColumns / kTileRows * int64_t{kTileStride};
// Units of the right operand that are packed at a time beside a left one of columns. AVX-512's
// processors have a second level of the cache of 1 MB or more, others of 256 KB or 512 KB.
#if defined(__AVX512F__)
constexpr int64_t kUnitsOfColumns = int64_t{1} << 20;
#else
constexpr int64_t kUnitsOfColumns = int64_t{1} << 17;
#endif
constexpr int64_t kScratch = kPackedByRow > kPackedByUnit ? kPackedByRow : kPackedByUnit;

// A is the arithmetic, of kernels/cpu/units.h.
template <class A>
using Unit = typename A::Unit;
template <class A>
using Matrix = GemmMatrix<typename A::Number>;
template <class A>
using Block = GemmBlock<typename A::Number>;

template <class A>
int64_t units(int64_t kc) {
  return (kc + A::kNumbers - 1) / A::kNumbers;
}

// Packs `count` numbers of a term as units; a pair also takes the next term, if there is one.
template <class A>
void join(const typename A::Number* term, int64_t stride, int64_t terms_left, int64_t count,
          int64_t readable, Unit<A>* out) {
  A::join(term, terms_left > 1 ? term + stride : nullptr, count, readable, out);
}

template <class A>
void pack_panel(Matrix<A> b, int64_t kc, int64_t columns, float* out) {
  auto* panel = reinterpret_cast<Unit<A>*>(out);
  if (b.column_stride == 1) {
    for (int64_t term = 0; term < kc; term += A::kNumbers, panel += kColumns) {
      for (int64_t next = term + kPrefetchRows;
           next < smaller(term + kPrefetchRows + A::kNumbers, kc); ++next) {
        fetch(b.at(next, 0), columns * int64_t{sizeof(typename A::Number)});
      }
      join<A>(b.at(term, 0), b.row_stride, kc - term, columns, columns, panel);
      for (int64_t j = columns; j < kColumns; ++j) panel[j] = 0;
    }
    return;
  }
  // Columns are contiguous.
  alignas(64) Unit<A> rows[kColumns * kLanes];
  for (int64_t unit = 0; unit < units<A>(kc); unit += kLanes, panel += kLanes * kColumns) {
    const int64_t term = unit * A::kNumbers;
    const int64_t terms = smaller(kLanes * A::kNumbers, kc - term);
    if (A::kAsStored && terms == kLanes * A::kNumbers && columns == kColumns &&
        b.column_stride % A::kNumbers == 0) {
      transpose(reinterpret_cast<const Unit<A>*>(b.at(term, 0)), b.column_stride / A::kNumbers,
                kColumns, kLanes, panel, kColumns);
      continue;
    }
    A::pack_rows(b.at(term, 0), b.column_stride, columns, terms, kColumns, rows, kLanes);
    if (terms == kLanes * A::kNumbers) {
      transpose(rows, kLanes, kColumns, kLanes, panel, kColumns);
      continue;
    }
    alignas(64) Unit<A> last[kLanes * kColumns];
    transpose(rows, kLanes, kColumns, kLanes, last, kColumns);
    const auto bytes = static_cast<std::size_t>(units<A>(terms) * kColumns) * sizeof(Unit<A>);
    __builtin_memcpy(panel, last, bytes);
  }
}

// The rows of a left operand for a register tile, at most kTileRows. From the first one on the
// operand has `readable` rows.
template <class A>
struct LeftTile {
  Matrix<A> matrix;
  int64_t rows, readable;
  int64_t kc;  // in numbers
};

// Left operands as the tile reads them, and how they are packed: whole, or in parts, one beside
// each unit of the first product that reads the tile. Rows that are contiguous stay so.
struct ByRow {
  static constexpr int64_t kUnit = 1;
  static int64_t row(int64_t stride) { return stride; }
  static int64_t tile(int64_t stride) { return kTileRows * stride; }
  // Whether they can be read in place: units and tiles are whole, and rows are not
  // kCacheAliasStride apart.
  template <class A>
  static bool is_as_packed(Block<A> a) {
    const auto bytes = [](int64_t numbers) {
      return numbers * int64_t{sizeof(typename A::Number)};
    };
    return A::kAsStored && a.rows % kTileRows == 0 && a.kc % A::kNumbers == 0 &&
           a.matrix.row_stride % A::kNumbers == 0 &&
           bytes(a.matrix.row_stride) % kCacheAliasStride != 0;
  }
  template <class A>
  static void pack(LeftTile<A> tile, Unit<A>* out) {
    A::pack_rows(tile.matrix.data, tile.matrix.row_stride, tile.rows, tile.kc, kTileRows, out,
                 kRowStride);
  }
  // A part is a vector of a row. kLanes parts pack kLanes units of all rows; those beyond kTileRows
  // pack nothing. If kLanes is below kTileRows, they are too few.
  static constexpr int64_t kPrefetchParts = kLanes;
  template <class A>
  static bool has_parts(LeftTile<A> tile) {
    return kTileRows <= kLanes && tile.rows == kTileRows && tile.kc % (kLanes * A::kNumbers) == 0;
  }
  template <class A>
  [[gnu::always_inline]] static void pack_part(LeftTile<A> tile, int64_t part, Unit<A>* out) {
    const int64_t row = part % kLanes, unit = part / kLanes * kLanes;
    if (row >= kTileRows) return;
    A::pack_vector(tile.matrix.at(row, unit * A::kNumbers), out + row * kRowStride + unit);
  }
};

// A transposed operand has contiguous columns: a unit of all rows of a tile, then the next unit.
struct ByUnit {
  static constexpr int64_t kUnit = kTileRows;
  static int64_t row(int64_t) { return 1; }
  static int64_t tile(int64_t) { return kTileStride; }
  template <class A>
  static bool is_as_packed(Block<A>) {
    return false;
  }
  template <class A>
  static void pack(LeftTile<A> tile, Unit<A>* out) {
    for (int64_t part = 0; part < units<A>(tile.kc); ++part, out += kTileRows) {
      join_rows(tile, part, tile.rows, out);
      for (int64_t i = tile.rows; i < kTileRows; ++i) out[i] = 0;
    }
  }
  // A part is a unit. Its row, brought into the second level before (PrefetchNext), is fetched into
  // the first some parts ahead.
  static constexpr int64_t kPrefetchParts = 16;
  static constexpr int64_t kPrefetchUnits = 8;
  template <class A>
  static bool has_parts(LeftTile<A> tile) {
    return tile.rows == kTileRows;
  }
  template <class A>
  [[gnu::always_inline]] static void pack_part(LeftTile<A> tile, int64_t part, Unit<A>* out) {
    constexpr auto kBytes = kTileRows * int64_t{sizeof(typename A::Number)};
    const auto* next =
        reinterpret_cast<const char*>(tile.matrix.at(0, (part + kPrefetchUnits) * A::kNumbers));
    __builtin_prefetch(next);
    __builtin_prefetch(next + kBytes - 1);
    join_rows(tile, part, kTileRows, out + part * kTileRows);
  }

 private:
  template <class A>
  [[gnu::always_inline]] static void join_rows(LeftTile<A> tile, int64_t unit, int64_t rows,
                                               Unit<A>* out) {
    const int64_t term = unit * A::kNumbers;
    join<A>(tile.matrix.at(0, term), tile.matrix.column_stride, tile.kc - term, rows, tile.readable,
            out);
  }
};

// Work beside a product, called for kUnits units from a multiple of kUnits on: none.
struct Nothing {
  void start() const {}
  template <int kUnits>
  void beside(int64_t) const {}
};
// Fetches the next panel during some tiles, and the caller's lines.
struct PrefetchNext {
  static constexpr int64_t kUnitsAPanelLine = 2;
  static constexpr int64_t kUnitsANextLine = 4;
  Lines &panel, &next;
  void start() const {}
  template <int kUnits>
  [[gnu::always_inline]] void beside(int64_t unit) const {
    if (kUnits >= kUnitsAPanelLine || unit % kUnitsAPanelLine == 0) panel.fetch_next();
    if (kUnits >= kUnitsANextLine || unit % kUnitsANextLine == 0) next.fetch_next();
  }
};
// Packs parts of the tile before the product reads them.
template <class A, class Side>
class PackTile {
 public:
  PackTile(LeftTile<A> tile, Unit<A>* out, Lines& panel)
      : tile_(tile), parts_(units<A>(tile.kc)), out_(out), panel_(panel) {}
  void start() const {
    for (int64_t part = 0; part < smaller(Side::kPrefetchParts, parts_); ++part) pack(part);
  }
  template <int kUnits>
  [[gnu::always_inline]] void beside(int64_t unit) const {
    constexpr int64_t kLine = PrefetchNext::kUnitsAPanelLine;
    if (kUnits >= kLine || unit % kLine == 0) panel_.fetch_next();
    for (int64_t next = unit; next < unit + kUnits; ++next) {
      if (next + Side::kPrefetchParts < parts_) pack(next + Side::kPrefetchParts);
    }
  }

 private:
  [[gnu::always_inline]] void pack(int64_t part) const { Side::pack_part(tile_, part, out_); }

  LeftTile<A> tile_;
  int64_t parts_;
  Unit<A>* out_;
  Lines& panel_;
};

inline void put(float* out, Vector x) {  // aligned as its elements are
  __builtin_memcpy(out, &x, sizeof x);
}
#ifdef __AVX512BF16__
inline void put(Bf16* out, Vector x) {
  const Halves numbers = rounded(x);
  __builtin_memcpy(out, &numbers, sizeof numbers);
}
#endif

template <class A, class Side, class Out, class Work>
void multiply_tile(const Unit<A>* a, int64_t stride, const Unit<A>* panel, int64_t kc,
                   GemmRows<float> sums, bool add, GemmRows<Out> c, const Work& work) {
  work.start();
  constexpr int64_t kFetch = 8;  // units for which a row of the result is fetched
  constexpr int kNear = 3;       // rows whose addresses a processor computes from one register
  const int64_t row = Side::row(stride);
  const Unit<A>* near[kTileRows / kNear];
#pragma GCC unroll 16
  for (int i = 0; i < kTileRows / kNear; ++i) near[i] = a + kNear * i * row;
  Vector sum[kTileRows][kTileVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kTileVectors; ++j) sum[i][j] = Vector{};
  }
  // Two loops: GCC makes slower code for AVX-512 of the second. With fewer registers it moves and
  // stores sums if the second is a function, or ends as the first does: 6 % of a product.
#if defined(__AVX512F__)
#pragma GCC unroll 2
  for (int64_t k = 0; k < kc; ++k, panel += kColumns) {
    typename A::Units right[kTileVectors];
#pragma GCC unroll 2
    for (int j = 0; j < kTileVectors; ++j) {
      right[j] = *reinterpret_cast<const typename A::Units*>(panel + j * kLanes);
    }
    work.template beside<1>(k);
    if (k % kFetch == 0 && k / kFetch < kTileRows) {
      fetch(c.data + k / kFetch * c.stride, kColumns * int64_t{sizeof(Out)});
    }
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i) {
      Unit<A> left;
      __builtin_memcpy(&left, near[i / kNear] + i % kNear * row + k * Side::kUnit, sizeof left);
#pragma GCC unroll 2
      for (int j = 0; j < kTileVectors; ++j) {
        sum[i][j] = A::multiply_add(sum[i][j], left, right[j]);
      }
    }
  }
#else
  const auto fetch_result = [&](int64_t k) __attribute__((always_inline)) {
    if (k % kFetch == 0 && k / kFetch < kTileRows) {
      fetch(c.data + k / kFetch * c.stride, kColumns * int64_t{sizeof(Out)});
    }
  };
  const auto multiply_unit = [&](int64_t k, const Unit<A>* unit) __attribute__((always_inline)) {
    typename A::Units right[kTileVectors];
#pragma GCC unroll 2
    for (int j = 0; j < kTileVectors; ++j) {
      right[j] = *reinterpret_cast<const typename A::Units*>(unit + j * kLanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i) {
      Unit<A> left;
      __builtin_memcpy(&left, near[i / kNear] + i % kNear * row + k * Side::kUnit, sizeof left);
#pragma GCC unroll 2
      for (int j = 0; j < kTileVectors; ++j) {
        sum[i][j] = A::multiply_add(sum[i][j], left, right[j]);
      }
    }
  };
  int64_t k = 0;
  for (; k + kUnitsTogether <= kc; k += kUnitsTogether, panel += kUnitsTogether * kColumns) {
    work.template beside<kUnitsTogether>(k);
    fetch_result(k);
#pragma GCC unroll 8
    for (int i = 0; i < kUnitsTogether; ++i) multiply_unit(k + i, panel + i * kColumns);
  }
#pragma GCC unroll 1
  for (; k < kc; ++k, panel += kColumns) {
    work.template beside<1>(k);
    multiply_unit(k, panel);
  }
#endif
#pragma GCC unroll 16
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kTileVectors; ++j) {
      if (add) {
        Vector before;
        __builtin_memcpy(&before, sums.data + i * sums.stride + j * kLanes, sizeof before);
        sum[i][j] = before + sum[i][j];
      }
      put(c.data + i * c.stride + j * kLanes, sum[i][j]);
    }
  }
}

template <class T>
void copy(GemmRows<T> from, GemmRows<T> to, int64_t rows, int64_t columns) {
  const auto bytes = static_cast<std::size_t>(columns) * sizeof(T);
  for (int64_t row = 0; row < rows; ++row) {
    __builtin_memcpy(to.part(row, 0).data, from.part(row, 0).data, bytes);
  }
}

// Multiplies a tile that reaches beyond the rows or columns of the result.
template <class A, class Side, class Out>
void multiply_edge(const Unit<A>* a, int64_t stride, const Unit<A>* panel, int64_t kc,
                   GemmRows<float> sums, bool add, GemmRows<Out> c, int64_t rows, int64_t columns) {
  alignas(64) float sums_tile[kTileRows * kColumns] = {};
  alignas(64) Out c_tile[kTileRows * kColumns];
  if (add) copy(sums, {sums_tile, kColumns}, rows, columns);
  multiply_tile<A, Side>(a, stride, panel, kc, {sums_tile, kColumns}, add,
                         GemmRows<Out>{c_tile, kColumns}, Nothing{});
  copy({c_tile, kColumns}, c, rows, columns);
}

// The left operand is read at `left`. Unless `packed` is null that is the same memory, and each
// tile is packed there with the first panel.
template <class A, class Side, class Out>
void multiply_tiles(Block<A> a, LinesList& next, Unit<A>* packed, const Unit<A>* left,
                    int64_t stride, const Unit<A>* panels, int64_t columns, GemmRows<float> sums,
                    bool add, GemmRows<Out> c) {
  const int64_t kc = units<A>(a.kc);
  const int64_t panel_size = kc * kColumns;
  for (int64_t column = 0; column < columns; column += kColumns, panels += panel_size) {
    const int64_t wide = smaller(kColumns, columns - column);
    Lines next_panel;
    if (column + kColumns < columns) {
      next_panel = {panels + panel_size, panel_size * int64_t{sizeof(Unit<A>)}, 0, 1};
    }
    for (int64_t row = 0; row < a.rows; row += kTileRows) {
      const int64_t high = smaller(kTileRows, a.rows - row);
      const int64_t tile = row / kTileRows * Side::tile(stride);
      const GemmRows<float> sums_tile = sums.part(row, column);
      const GemmRows<Out> c_tile = c.part(row, column);
      const auto product = [&](const auto& work) {
        multiply_tile<A, Side>(left + tile, stride, panels, kc, sums_tile, add, c_tile, work);
      };
      const bool whole = high == kTileRows && wide == kColumns;
      if (packed != nullptr && column == 0) {
        const LeftTile<A> unpacked = {a.matrix.part(row, 0), high, a.rows - row, a.kc};
        if (whole && Side::has_parts(unpacked)) {
          product(PackTile<A, Side>(unpacked, packed + tile, next_panel));
          continue;
        }
        Side::pack(unpacked, packed + tile);
      }
      if (whole) {
        product(PrefetchNext{next_panel, next.first()});
      } else {
        multiply_edge<A, Side>(left + tile, stride, panels, kc, sums_tile, add, c_tile, high, wide);
      }
    }
  }
}

template <class A, class Side>
void multiply_side(Block<A> a, LinesList& next, const float* panels, int64_t columns,
                   GemmRows<float> sums, bool add, GemmRows<typename A::Number> c, float* scratch) {
  const bool is_packed = Side::template is_as_packed<A>(a);
  auto* packed = is_packed ? nullptr : reinterpret_cast<Unit<A>*>(scratch);
  const auto* left = is_packed ? reinterpret_cast<const Unit<A>*>(a.matrix.data) : packed;
  const int64_t stride = is_packed ? a.matrix.row_stride / A::kNumbers : kRowStride;
  const auto* right = reinterpret_cast<const Unit<A>*>(panels);
  if (c.data == nullptr) {
    multiply_tiles<A, Side>(a, next, packed, left, stride, right, columns, sums, add, sums);
  } else {
    multiply_tiles<A, Side>(a, next, packed, left, stride, right, columns, sums, add, c);
  }
}

template <class A>
void multiply(Block<A> a, LinesList& next, const float* panels, int64_t columns,
              GemmRows<float> sums, bool add, GemmRows<typename A::Number> c, float* scratch) {
  const auto f = a.matrix.column_stride == 1 ? multiply_side<A, ByRow> : multiply_side<A, ByUnit>;
  f(a, next, panels, columns, sums, add, c, scratch);
}

template <class A>
constexpr CpuGemm<typename A::Number> gemm_table() {
  return {A::kNumbers, kTileRows, kColumns, kUnitsOfColumns, kScratch, pack_panel<A>, multiply<A>};
}

}  // namespace

// On top of avx512, avx512_bf16 changes bf16 alone.
#ifdef __AVX512BF16__
extern const CpuGemm<Bf16> kGemmBf16Dot, kGemmBf16ToF32;
const CpuGemm<Bf16> kGemmBf16Dot = gemm_table<Bf16DotPairs>();
const CpuGemm<Bf16> kGemmBf16ToF32 = gemm_table<Bf16ToF32>();
#else
extern const CpuGemm<float> kGemmFloat;
const CpuGemm<float> kGemmFloat = gemm_table<F32>();
#endif

}  // namespace lmtrain::LMTRAIN_ISA
