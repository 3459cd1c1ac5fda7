#include "ops/matmul.h"

#include "ops/cpu_gemm.h"
#include "ops/torch_headers.h"

namespace lmtrain {
namespace {

// Columns of the right operand that are packed at a time: 4 MB with kGemmDepth terms each.
constexpr int64_t kPackedColumns = 4096;
// With fewer rows or columns, packing the larger operand costs more than it saves.
constexpr int64_t kFew = 16;

int64_t parts(int64_t count, int64_t size) { return (count + size - 1) / size; }

// Scratch of the calling thread, or of those that it waits for.
at::Tensor floats(int64_t count) { return at::detail::empty_cpu({count}, at::kFloat); }

// c += a b, or c = a b, for some columns of c and some terms.
void multiply_block(GemmMatrix a, int64_t rows, int64_t depth, const float* panels, int64_t columns,
                    float* c, int64_t c_stride, bool add) {
  const CpuGemm& gemm = cpu_gemm();
  // Pieces are whole tiles high and whole panels wide. Where rows alone are too few for the
  // threads, columns are divided too.
  const int64_t tiles = parts(rows, gemm.tile_rows);
  const int64_t num_panels = parts(columns, gemm.panel_columns);
  const int64_t groups = std::min(num_panels, parts(int64_t{4} * at::get_num_threads(), tiles));
  const int64_t group = parts(num_panels, groups);
  at::parallel_for(0, parts(num_panels, group) * tiles, 1, [&](int64_t piece, int64_t end) {
    const at::Tensor scratch = floats(gemm.scratch);
    while (piece < end) {
      const int64_t panel = piece / tiles * group;
      const int64_t tile = piece % tiles;
      const int64_t count = std::min({end - piece, tiles - tile, kGemmRows / gemm.tile_rows});
      const int64_t row = tile * gemm.tile_rows, column = panel * gemm.panel_columns;
      gemm.multiply({a.at(row, 0), a.row_stride, a.column_stride},
                    std::min(rows - row, count * gemm.tile_rows), depth, panels + column * depth,
                    std::min(columns - column, group * gemm.panel_columns),
                    c + row * c_stride + column, c_stride, add, scratch.data_ptr<float>());
      piece += count;
    }
  });
}

GemmMatrix matrix(const at::Tensor& x) { return {x.data_ptr<float>(), x.stride(0), x.stride(1)}; }

at::Tensor by_gemm(const at::Tensor& a_MK, const at::Tensor& b_KN) {
  const CpuGemm& gemm = cpu_gemm();
  const int64_t rows = a_MK.size(0), terms = a_MK.size(1), columns = b_KN.size(1);
  const at::Tensor c = at::empty({rows, columns}, a_MK.options());
  const int64_t depth = parts(terms, std::max<int64_t>(1, parts(terms, kGemmDepth)));
  const int64_t wide =
      std::min(kPackedColumns, parts(columns, gemm.panel_columns) * gemm.panel_columns);
  const at::Tensor packed = floats(depth * wide);
  float* panels = packed.data_ptr<float>();
  const GemmMatrix a = matrix(a_MK), b = matrix(b_KN);
  for (int64_t column = 0; column < columns; column += wide) {
    const int64_t some = std::min(wide, columns - column);
    for (int64_t term = 0; term < terms; term += depth) {
      const int64_t deep = std::min(depth, terms - term);
      at::parallel_for(0, parts(some, gemm.panel_columns), 8, [&](int64_t begin, int64_t end) {
        for (int64_t panel = begin; panel < end; ++panel) {
          const int64_t first = panel * gemm.panel_columns;
          gemm.pack_panel({b.at(term, column + first), b.row_stride, b.column_stride}, deep,
                          std::min(gemm.panel_columns, some - first), panels + first * deep);
        }
      });
      multiply_block({a.at(0, term), a.row_stride, a.column_stride}, rows, deep, panels, some,
                     c.data_ptr<float>() + column, columns, term > 0);
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
