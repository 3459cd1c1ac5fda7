#include "ops/matmul.h"

#include "ops/cpu_gemm.h"
#include "ops/torch_headers.h"

namespace lmtrain {
namespace {

// Columns, and floats, of the right operand that are packed at a time: 16 MB.
constexpr int64_t kPackedColumns = 4096;
constexpr int64_t kPackedFloats = int64_t{4} << 20;
// With fewer rows or columns, packing the larger operand costs more than it saves.
constexpr int64_t kFew = 16;

int64_t parts(int64_t count, int64_t size) { return (count + size - 1) / size; }

// Scratch of the calling thread, or of those that it waits for.
at::Tensor floats(int64_t count) { return at::detail::empty_cpu({count}, at::kFloat); }

GemmMatrix matrix(const at::Tensor& x) { return {x.data_ptr<float>(), x.stride(0), x.stride(1)}; }

GemmMatrix part(const GemmMatrix& x, int64_t row, int64_t column) {
  return {x.at(row, column), x.row_stride, x.column_stride};
}

// A block of the right operand, `depth` terms after `depth` terms, each in panels.
struct Packed {
  float* data;
  int64_t terms, columns;
  int64_t depth;  // of all but the last

  int64_t num_panels() const { return parts(columns, cpu_gemm().panel_columns); }
  int64_t depth_at(int64_t term) const { return std::min(depth, terms - term); }
  float* panel(int64_t term, int64_t panel) const {
    return data + cpu_gemm().panel_columns * (term * num_panels() + panel * depth_at(term));
  }
};

void pack(const GemmMatrix& b, const Packed& packed) {
  const CpuGemm& gemm = cpu_gemm();
  at::parallel_for(0, packed.num_panels(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t column = panel * gemm.panel_columns;
      for (int64_t term = 0; term < packed.terms; term += packed.depth) {
        gemm.pack_panel(part(b, term, column), packed.depth_at(term),
                        std::min(gemm.panel_columns, packed.columns - column),
                        packed.panel(term, panel));
      }
    }
  });
}

// c += a b, or c = a b, for the columns and terms of b that are packed.
void multiply_packed(const GemmMatrix& a, int64_t rows, const Packed& b, float* c, int64_t c_stride,
                     bool add) {
  const CpuGemm& gemm = cpu_gemm();
  // Pieces are whole tiles high and whole panels wide. Where rows alone are too few for the
  // threads, columns are divided too.
  const int64_t tiles = parts(rows, gemm.tile_rows);
  const int64_t groups = std::min(b.num_panels(), parts(int64_t{4} * at::get_num_threads(), tiles));
  const int64_t group = parts(b.num_panels(), groups);
  at::parallel_for(0, parts(b.num_panels(), group) * tiles, 1, [&](int64_t piece, int64_t end) {
    const at::Tensor scratch = floats(gemm.scratch);
    while (piece < end) {
      const int64_t panel = piece / tiles * group;
      const int64_t tile = piece % tiles;
      const int64_t count = std::min({end - piece, tiles - tile, kGemmRows / gemm.tile_rows});
      const int64_t row = tile * gemm.tile_rows, column = panel * gemm.panel_columns;
      // All terms of a few rows, so that their sums stay in the cache.
      for (int64_t term = 0; term < b.terms; term += b.depth) {
        gemm.multiply(
            part(a, row, term), std::min(rows - row, count * gemm.tile_rows), b.depth_at(term),
            b.panel(term, panel), std::min(b.columns - column, group * gemm.panel_columns),
            c + row * c_stride + column, c_stride, add || term > 0, scratch.data_ptr<float>());
      }
      piece += count;
    }
  });
}

// a_MK b_KN -> c_MN. Either may be a transposed view.
at::Tensor by_gemm(const at::Tensor& a_MK, const at::Tensor& b_KN) {
  const int64_t rows = a_MK.size(0), terms = a_MK.size(1), columns = b_KN.size(1);
  const at::Tensor c = at::empty({rows, columns}, a_MK.options());
  if (terms == 0) return c.zero_();
  const int64_t panel = cpu_gemm().panel_columns;
  const int64_t depth = parts(terms, parts(terms, kGemmDepth));
  const int64_t wide = std::min(kPackedColumns, parts(columns, panel) * panel);
  const int64_t deep = std::max<int64_t>(1, kPackedFloats / (wide * depth)) * depth;
  const at::Tensor scratch = floats(std::min(deep, terms) * wide);
  for (int64_t column = 0; column < columns; column += wide) {
    for (int64_t term = 0; term < terms; term += deep) {
      const Packed b = {scratch.data_ptr<float>(), std::min(deep, terms - term),
                        std::min(wide, columns - column), depth};
      pack(part(matrix(b_KN), term, column), b);
      multiply_packed(part(matrix(a_MK), 0, term), rows, b, c.data_ptr<float>() + column, columns,
                      /*add=*/term > 0);
    }
  }
  return c;
}

// Either operand as it is or transposed.
bool has_a_contiguous_side(const at::Tensor& x) {
  return x.is_contiguous() || x.t().is_contiguous();
}

bool takes_gemm(const at::Tensor& a_MK, const at::Tensor& b_KN) {
  return a_MK.is_cpu() && a_MK.scalar_type() == at::kFloat && cpu_gemm_is_fastest() &&
         std::min(a_MK.size(0), b_KN.size(1)) >= kFew && has_a_contiguous_side(a_MK) &&
         has_a_contiguous_side(b_KN);
}

}  // namespace

at::Tensor product(const at::Tensor& a_MK, const at::Tensor& b_KN) {
  return takes_gemm(a_MK, b_KN) ? by_gemm(a_MK, b_KN) : at::mm(a_MK, b_KN);
}

}  // namespace lmtrain
