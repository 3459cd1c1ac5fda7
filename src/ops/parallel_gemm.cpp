#include "ops/parallel_gemm.h"

#include "device/torch_headers.h"
#include "device/work_queue.h"

namespace lmtrain {
namespace {

// Columns and units of the right operand that are packed at a time: 4 MB, which stay in the cache.
// Beside a left operand of columns the units are CpuGemm's. Widened numbers need twice as many
// units, so fewer columns are packed: else sums of few terms would have to be kept for every
// column.
constexpr int64_t kPackedColumns = 4096;
constexpr int64_t kPackedUnits = int64_t{1} << 20;
// The same where all of it must be, for a result that is visited: in the cache that threads share.
constexpr int64_t kUnitsOfOneBlock = int64_t{4} << 20;
// Sums that a thread works on at a time, which stay in its own cache.
constexpr int64_t kSums = int64_t{72} << 10;

// Whether results are rounded sums; else they are sums themselves, and hold their own.
template <class T>
constexpr bool kRounds = !std::is_same_v<T, float>;

int64_t parts(int64_t count, int64_t size) { return (count + size - 1) / size; }

// Scratch of the calling thread, or of those that it waits for.
at::Tensor floats(int64_t count) { return at::detail::empty_cpu({count}, at::kFloat); }

// The cache lines of a part of a matrix, along its rows or columns, whichever are contiguous.
template <class T>
Lines lines(const GemmMatrix<T>& x, int64_t rows, int64_t columns) {
  constexpr int64_t kMisaligned = 60;  // a strip's last line begins up to so many bytes later
  const auto bytes = [](int64_t numbers) { return numbers * int64_t{sizeof(T)}; };
  return x.column_stride == 1
             ? Lines(x.data, bytes(columns) + kMisaligned, bytes(x.row_stride), rows)
             : Lines(x.data, bytes(rows) + kMisaligned, bytes(x.column_stride), columns);
}

// The rows of a part that are the share of terms [k, k + kc) of all K.
MatrixPart share_of(const MatrixPart& part, int64_t k, int64_t kc, int64_t K) {
  const int64_t first = part.rows * k / K, end = part.rows * (k + kc) / K;
  return {part.row + first, part.column, end - first, part.columns};
}

// Adds to `list` the cache lines of the part `there` of each matrix in `function.beside`.
template <class T>
void add_beside(const TileFunction<T>& function, const MatrixPart& there, LinesList& list) {
  if (there.rows <= 0) return;
  for (const at::Tensor& x : function.beside) {
    list.add(lines(gemm_matrix<T>(x).part(there.row, there.column), there.rows, there.columns));
  }
}

// A block of the right operand, `kc` terms after `kc` terms, each in panels.
template <class T>
struct PackedOperand {
  const CpuGemm<T>& gemm;
  float* data;
  int64_t first_k, first_column;  // in the operand
  int64_t K, columns;
  int64_t kc;  // of all but the last; whole units

  int64_t num_panels() const { return parts(columns, gemm.panel_columns); }
  int64_t kc_at(int64_t k) const { return std::min(kc, K - k); }
  float* panel(int64_t k, int64_t panel) const {
    return data +
           gemm.panel_columns * (k / gemm.unit * num_panels() + panel * parts(kc_at(k), gemm.unit));
  }
};

template <class T>
void pack(const GemmMatrix<T>& b, const PackedOperand<T>& packed) {
  const int64_t width = packed.gemm.panel_columns;
  parallel_for_queued(packed.num_panels(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t column = panel * width;
      for (int64_t k = 0; k < packed.K; k += packed.kc) {
        packed.gemm.pack_panel(b.part(packed.first_k + k, packed.first_column + column),
                               packed.kc_at(k), std::min(width, packed.columns - column),
                               packed.panel(k, panel));
      }
    }
  });
}

// Divides the result of a packed block into tasks for the threads. A task is a tile high and some
// panels wide, or as wide as the result. Tasks are numbered downwards in the first columns, then in
// the next. A thread computes the tasks of an area at once.
class Division {
 public:
  template <class T>
  Division(const LeftOperand<T>& a, const PackedOperand<T>& b, bool whole_rows)
      : rows_(a.rows),
        columns_(b.columns),
        tile_rows_(b.gemm.tile_rows),
        tiles_(parts(rows_, tile_rows_)),
        rows_at_once_(a.matrix.column_stride == 1 ? kGemmRows : kGemmRowsOfColumns) {
    int64_t groups = parts(columns_, kSums / rows_at_once_);
    // Where rows alone are too few for the threads, columns are divided too.
    if (!whole_rows) {
      groups = std::max(groups, std::min(b.num_panels(), groups_for_threads(rows_, tile_rows_)));
    }
    columns_at_once_ = parts(b.num_panels(), groups) * b.gemm.panel_columns;
    wide_ = whole_rows ? columns_ : columns_at_once_;
  }

  int64_t count() const { return parts(columns_, wide_) * tiles_; }
  // The most rows and columns that a thread works on at once.
  int64_t rows_at_once() const { return rows_at_once_; }
  int64_t columns_at_once() const { return columns_at_once_; }

  // Returns the next tasks for a thread.
  Tasks take(WorkQueue& from) const {
    constexpr int64_t kSmallestPart = 3;
    const int64_t together = rows_at_once_ / tile_rows_;
    return from.take_some(std::max<int64_t>(1, together / kSmallestPart), together);
  }
  // Takes off the first of `tasks`, as far as they lie in the same columns, and returns their area
  // of the result.
  MatrixPart cut(Tasks& tasks) const {
    const int64_t tile = tasks.begin % tiles_, row = tile * tile_rows_;
    const int64_t column = tasks.begin / tiles_ * wide_;
    const int64_t count =
        std::min({tasks.end - tasks.begin, tiles_ - tile, rows_at_once_ / tile_rows_});
    tasks.begin += count;
    return {row, column, std::min(rows_ - row, count * tile_rows_),
            std::min(columns_ - column, wide_)};
  }

 private:
  int64_t rows_, columns_;
  int64_t tile_rows_, tiles_, rows_at_once_;
  int64_t columns_at_once_ = 0, wide_ = 0;
};

// Memory of a thread's own for the numbers of an area.
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

// Computes a b, or sums + a b, for the packed block of b: into `c` with the last of b's terms, if
// `c` has data, else into `sums`. Without `sums` a thread keeps the sums of its area.
template <class T>
class PackedProduct {
 public:
  PackedProduct(const LeftOperand<T>& a, const PackedOperand<T>& b, GemmRows<float> sums, bool add,
                const ProductResult<T>& c)
      : a_(a),
        b_(b),
        sums_(sums),
        add_(add),
        c_(c),
        division_(a, b, /*whole_rows=*/c.visit != nullptr) {}

  void run() const {
    WorkQueue work(division_.count());
    work.run(1, [&] {
      const Memory memory(*this);
      while (Tasks tasks = division_.take(work)) {
        while (tasks) {
          const MatrixPart area = division_.cut(tasks);
          const int64_t end = area.column + area.columns, width = division_.columns_at_once();
          for (int64_t column = area.column; column < end; column += width) {
            multiply({area.row, column, area.rows, std::min(width, end - column)}, memory);
          }
          if (c_.visit != nullptr) (*c_.visit)(area.row, area.row + area.rows);
        }
      }
    });
  }

 private:
  // A thread's own.
  struct Memory {
    explicit Memory(const PackedProduct& product)
        : scratch(floats(product.b_.gemm.scratch)),
          left(product.division_.rows_at_once(), odd_distance(product.b_.K),
               product.a_.prologue != nullptr),
          sums(product.division_.rows_at_once(), product.division_.columns_at_once(),
               product.sums_.data == nullptr),
          result(product.division_.rows_at_once(), product.division_.columns_at_once(),
                 kRounds<T> && product.c_.epilogue != nullptr) {}
    // At least so many numbers, and no distance of kCacheAliasStride.
    static int64_t odd_distance(int64_t numbers) {
      constexpr int64_t kOdd = 16;
      return (2 * parts(numbers, 2 * kOdd) + 1) * kOdd;
    }

    at::Tensor scratch;
    OwnRows<T> left;
    OwnRows<float> sums;
    OwnRows<T> result;
  };

  void multiply(const MatrixPart& area, const Memory& memory) const {
    const GemmMatrix<T> rows = left_rows(area, memory);
    const GemmRows<float> sums =
        sums_.data == nullptr ? memory.sums.get() : sums_.part(area.row, area.column);
    GemmRows<T> rounded = {};
    if (kRounds<T> && c_.epilogue != nullptr) rounded = memory.result.get();
    if (kRounds<T> && c_.rows.data != nullptr) rounded = c_.rows.part(area.row, area.column);
    // All terms of a few rows, so that their sums stay in the cache.
    for (int64_t k = 0; k < b_.K; k += b_.kc) {
      const bool last = k + b_.kc >= b_.K;
      LinesList next = wanted_next(area, k);
      b_.gemm.multiply({rows.part(0, k), area.rows, b_.kc_at(k)}, next,
                       b_.panel(k, area.column / b_.gemm.panel_columns), area.columns, sums,
                       add_ || k > 0, last ? rounded : GemmRows<T>{},
                       memory.scratch.template data_ptr<float>());
    }
    if (c_.epilogue == nullptr) return;
    if constexpr (kRounds<T>) {
      c_.epilogue->visit(of_result(area), rounded.data, rounded.stride);
    } else {
      c_.epilogue->visit(of_result(area), sums.data, sums.stride);
    }
  }

  MatrixPart of_result(const MatrixPart& area) const {
    return {area.row, b_.first_column + area.column, area.rows, area.columns};
  }

  // Returns the area's rows of the left operand, from the block's first term on. A prologue writes
  // them into the thread's memory.
  GemmMatrix<T> left_rows(const MatrixPart& area, const Memory& memory) const {
    if (a_.prologue == nullptr) return a_.matrix.part(area.row, b_.first_k);
    const GemmRows<T> own = memory.left.get();
    a_.prologue->visit({area.row, b_.first_k, area.rows, b_.K}, own.data, own.stride);
    return {own.data, own.stride, 1};
  }

  // Returns the memory to fetch during an area's product of the terms from k on: the matrices that
  // the epilogue uses, and the source of the left operand's next terms or rows.
  LinesList wanted_next(const MatrixPart& area, int64_t k) const {
    const int64_t kc = b_.kc_at(k), next_k = k + kc;
    const int64_t next_row = area.row + area.rows;
    int64_t next_rows = std::min(area.rows, a_.rows - next_row);
    // The other columns of a whole row come before the next rows.
    if (c_.visit != nullptr && area.column + area.columns < b_.columns) next_rows = 0;
    LinesList list;
    if (c_.epilogue != nullptr) {
      add_beside(*c_.epilogue, share_of(of_result(area), k, kc, b_.K), list);
    }
    if (a_.prologue != nullptr) {
      add_beside(*a_.prologue, {next_row, b_.first_k + k, next_rows, kc}, list);
    } else if (next_k < b_.K) {
      list.add(lines(a_.matrix.part(area.row, b_.first_k + next_k), area.rows, b_.kc_at(next_k)));
    } else if (next_rows > 0) {
      list.add(lines(a_.matrix.part(next_row, b_.first_k), next_rows, b_.kc_at(0)));
    }
    return list;
  }

  const LeftOperand<T>& a_;
  const PackedOperand<T>& b_;
  const GemmRows<float> sums_;
  const bool add_;
  const ProductResult<T>& c_;
  const Division division_;
};

// How the right operand is divided: `kc` terms are summed at a time, and `KC` terms of `NC` columns
// are packed. An epilogue needs all terms at once, and a visit all columns too.
template <class T>
struct Blocks {
  int64_t kc, NC, KC;
  Blocks(const CpuGemm<T>& gemm, const LeftOperand<T>& a, int64_t K, int64_t columns,
         const ProductResult<T>& c) {
    const int64_t panel = gemm.panel_columns, unit = gemm.unit;
    kc = parts(parts(K, parts(K, kGemmKC * unit)), unit) * unit;
    const int64_t most = kRounds<T> ? kPackedColumns * unit / 2 : kPackedColumns;
    NC = std::min(most, parts(columns, panel) * panel);
    const int64_t at_once = a.matrix.column_stride == 1 ? kPackedUnits : gemm.units_of_columns;
    KC = std::max<int64_t>(1, at_once * unit / (NC * kc)) * kc;
    if (c.visit != nullptr) {
      KC = parts(K, kc) * kc;
      NC = parts(columns, panel) * panel;
    } else if (c.epilogue != nullptr && KC < K) {
      KC = parts(K, kc) * kc;
      NC = std::max<int64_t>(1, kPackedUnits * unit / (panel * KC)) * panel;
    }
  }
};

}  // namespace

int64_t groups_for_threads(int64_t rows, int64_t tile_rows) {
  constexpr int64_t kTasksOfThread = 4;  // at least
  return parts(kTasksOfThread * at::get_num_threads(), parts(rows, tile_rows));
}

template <class T>
bool is_one_block(const CpuGemm<T>& gemm, const at::Tensor& b_KN) {
  return parts(b_KN.size(0), gemm.unit) * b_KN.size(1) <= kUnitsOfOneBlock;
}

template <class T>
void parallel_gemm(const CpuGemm<T>& gemm, const LeftOperand<T>& a, const at::Tensor& b_KN,
                   const ProductResult<T>& c) {
  const int64_t K = b_KN.size(0), columns = b_KN.size(1);
  const auto [kc, NC, KC] = Blocks<T>(gemm, a, K, columns, c);
  const at::Tensor memory = floats(parts(std::min(KC, K), gemm.unit) * NC);
  const bool keeps_sums = kRounds<T> && K > KC;
  const at::Tensor sums = floats(keeps_sums ? a.rows * NC : 0);
  for (int64_t column = 0; column < columns; column += NC) {
    for (int64_t k = 0; k < K; k += KC) {
      const PackedOperand<T> block = {
          gemm,   memory.data_ptr<float>(), k,
          column, std::min(KC, K - k),      std::min(NC, columns - column),
          kc};
      pack(gemm_matrix<T>(b_KN), block);
      const bool last = k + KC >= K;
      ProductResult<T> result = c;
      if (c.epilogue == nullptr) result.rows = c.rows.part(0, column);
      GemmRows<float> result_sums = {keeps_sums ? sums.data_ptr<float>() : nullptr, NC};
      if constexpr (!kRounds<T>) result_sums = result.rows;
      if (!last) result.rows = {};
      PackedProduct<T>(a, block, result_sums, /*add=*/k > 0, result).run();
    }
  }
}

template bool is_one_block(const CpuGemm<float>&, const at::Tensor&);
template bool is_one_block(const CpuGemm<Bf16>&, const at::Tensor&);
template void parallel_gemm(const CpuGemm<float>&, const LeftOperand<float>&, const at::Tensor&,
                            const ProductResult<float>&);
template void parallel_gemm(const CpuGemm<Bf16>&, const LeftOperand<Bf16>&, const at::Tensor&,
                            const ProductResult<Bf16>&);

}  // namespace lmtrain
