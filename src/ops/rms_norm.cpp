#include "ops/dispatch.h"
#include "ops/operators.h"
#include "ops/torch_headers.h"

namespace lmtrain {
namespace {

// The weight's gradient sums over rows in this many fixed blocks, so that it does not depend on the
// thread count.
constexpr int64_t kWeightGradBlocks = 32;

class RmsNormFunction : public torch::autograd::Function<RmsNormFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& input_weight, double eps) {
    const at::Tensor x = input.contiguous();
    const at::Tensor weight = input_weight.contiguous();
    const int64_t dim = x.size(-1);
    const int64_t rows = x.numel() / dim;
    at::Tensor y = at::empty_like(x);
    const at::Tensor rstd = at::empty({rows}, x.options().dtype(at::kFloat));
    on_cpu(x, [&]<class T>(T) {
      at::parallel_for(0, rows, grain_rows(dim), [&](int64_t begin, int64_t end) {
        cpu_kernels<T>().rms_norm_forward(
            elements<T>(x) + begin * dim, elements<T>(weight), elements<T>(y) + begin * dim,
            elements<float>(rstd) + begin, end - begin, dim, static_cast<float>(eps));
      });
    });
    on_cuda(x, [&](const auto& call) {
      cuda::rms_norm_forward(call, x.data_ptr(), /*residual=*/nullptr, weight.data_ptr(),
                             /*h=*/nullptr, y.data_ptr(), elements<float>(rstd), rows, dim,
                             static_cast<float>(eps));
    });
    context->save_for_backward({x, weight, rstd});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor& rstd = saved[2];
    const at::Tensor dy = grads[0].contiguous();
    const int64_t dim = x.size(-1);
    const int64_t rows = x.numel() / dim;
    const at::Tensor dx = at::empty_like(x);
    at::Tensor dw;
    on_cpu(x, [&]<class T>(T) {
      const at::Tensor partial = at::zeros({kWeightGradBlocks, dim}, at::kFloat);
      const int64_t block_rows = (rows + kWeightGradBlocks - 1) / kWeightGradBlocks;
      at::parallel_for(0, kWeightGradBlocks, 1, [&](int64_t first, int64_t last) {
        for (int64_t block = first; block < last; ++block) {
          const int64_t begin = std::min(rows, block * block_rows);
          const int64_t end = std::min(rows, begin + block_rows);
          cpu_kernels<T>().rms_norm_backward(
              elements<T>(dy) + begin * dim, elements<T>(x) + begin * dim, elements<T>(weight),
              elements<float>(rstd) + begin, elements<T>(dx) + begin * dim,
              elements<float>(partial) + block * dim, end - begin, dim);
        }
      });
      dw = partial.sum(0).to(weight.scalar_type());
    });
    on_cuda(x, [&](const auto& call) {
      dw = at::empty_like(weight);
      const at::Tensor partial = at::empty({cuda::rms_norm_partials(rows), dim}, rstd.options());
      cuda::rms_norm_backward(call, dy.data_ptr(), /*dh=*/nullptr, x.data_ptr(), weight.data_ptr(),
                              elements<float>(rstd), dx.data_ptr(), dw.data_ptr(),
                              elements<float>(partial), rows, dim);
    });
    return {dx, dw, at::Tensor()};
  }
};

}  // namespace

at::Tensor rms_norm_reference(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::ScalarType accurate = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor wide = x.to(accurate);
  const at::Tensor normed = wide * at::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + eps);
  return (normed * weight.to(accurate)).to(x.scalar_type());
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return has_kernel(x) ? RmsNormFunction::apply(x, weight, eps)
                       : rms_norm_reference(x, weight, eps);
}

}  // namespace lmtrain
