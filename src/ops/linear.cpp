#include "ops/cpu_gemm.h"
#include "ops/operators.h"
#include "ops/torch_headers.h"

namespace lmtrain {
namespace {

// Columns of the right operand that are packed at a time: 4 MB with kGemmDepth terms each.
constexpr int64_t kPackedColumns = 4096;
// Below this many positions packing the weight costs more than it saves.
constexpr int64_t kFewPositions = 16;

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

// a_MK b_KN -> c_MN. Either may be a transposed view.
at::Tensor product(const at::Tensor& a_MK, const at::Tensor& b_KN) {
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

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& input_weight) {
    const at::Tensor x_NI = x.reshape({-1, x.size(-1)}).contiguous();
    const at::Tensor weight_OI = input_weight.contiguous();
    context->save_for_backward({x_NI, weight_OI});
    context->saved_data["sizes"] = x.sizes();
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.back() = weight_OI.size(0);
    return product(x_NI, weight_OI.t()).view(sizes);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& x_NI = saved[0];
    const at::Tensor& weight_OI = saved[1];
    const at::Tensor dy_NO = grads[0].reshape({-1, weight_OI.size(0)}).contiguous();
    return {product(dy_NO, weight_OI).view(context->saved_data["sizes"].toIntVector()),
            product(dy_NO.t(), x_NI)};
  }
};

bool takes_gemm(const at::Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && cpu_gemm_is_fastest() &&
         x.numel() >= kFewPositions * x.size(-1);
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight) {
  return takes_gemm(x) ? LinearFunction::apply(x, weight) : at::linear(x, weight);
}

}  // namespace lmtrain
