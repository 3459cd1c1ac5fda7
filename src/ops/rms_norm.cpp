#include <torch/csrc/autograd/custom_function.h>

#include "device/dispatch.h"
#include "device/torch_headers.h"
#include "device/work_queue.h"
#include "ops/operators.h"
#include "ops/weight_gradient.h"

namespace lmtrain {
namespace {

// y and rstd. With a residual, h = x + residual is written to `h` and takes the place of x.
std::pair<at::Tensor, at::Tensor> forward_rows(const at::Tensor& x, const at::Tensor& residual,
                                               const at::Tensor& weight, const at::Tensor& h,
                                               double eps) {
  const int64_t dim = x.size(-1);
  const int64_t rows = x.numel() / dim;
  const at::Tensor y = at::empty_like(x);
  const at::Tensor rstd = at::empty({rows}, x.options().dtype(at::kFloat));
  on_cpu(x, [&]<class T>(T) {
    parallel_for_queued(rows, grain_rows(dim), [&](int64_t begin, int64_t end) {
      const auto at = [&](const at::Tensor& t) {
        return t.defined() ? elements<T>(t) + begin * dim : nullptr;
      };
      cpu_kernels<T>().rms_norm_forward(at(x), at(residual), elements<T>(weight), at(h), at(y),
                                        elements<float>(rstd) + begin, end - begin, dim,
                                        static_cast<float>(eps));
    });
  });
  on_cuda(x, [&](const auto& call) {
    const auto at = [](const at::Tensor& t) { return t.defined() ? t.data_ptr() : nullptr; };
    cuda::rms_norm_forward(call, at(x), at(residual), at(weight), at(h), at(y),
                           elements<float>(rstd), rows, dim, static_cast<float>(eps));
  });
  return {y, rstd};
}

// dx, with dh added if it is defined, and the weight's gradient.
std::pair<at::Tensor, at::Tensor> backward_rows(const at::Tensor& dy, const at::Tensor& dh,
                                                const at::Tensor& x, const at::Tensor& weight,
                                                const at::Tensor& rstd) {
  const int64_t dim = x.size(-1);
  const int64_t rows = x.numel() / dim;
  const at::Tensor dx = at::empty_like(x);
  at::Tensor dw;
  on_cpu(x, [&]<class T>(T) {
    const at::Tensor partial = at::zeros({kGradBlocks, dim}, at::kFloat);
    const int64_t block_rows = (rows + kGradBlocks - 1) / kGradBlocks;
    parallel_for_queued(kGradBlocks, 1, [&](int64_t first, int64_t last) {
      for (int64_t block = first; block < last; ++block) {
        const int64_t begin = std::min(rows, block * block_rows);
        const int64_t end = std::min(rows, begin + block_rows);
        const auto at = [&](const at::Tensor& t) {
          return t.defined() ? elements<T>(t) + begin * dim : nullptr;
        };
        cpu_kernels<T>().rms_norm_backward(
            at(dy), at(dh), at(x), elements<T>(weight), elements<float>(rstd) + begin, at(dx),
            elements<float>(partial) + block * dim, end - begin, dim);
      }
    });
    dw = partial.sum(0).to(weight.scalar_type());
  });
  on_cuda(x, [&](const auto& call) {
    dw = at::empty_like(weight);
    const at::Tensor partial = at::empty({cuda::rms_norm_partials(rows), dim}, rstd.options());
    cuda::rms_norm_backward(call, dy.data_ptr(), dh.defined() ? dh.data_ptr() : nullptr,
                            x.data_ptr(), weight.data_ptr(), elements<float>(rstd), dx.data_ptr(),
                            dw.data_ptr(), elements<float>(partial), rows, dim);
  });
  return {dx, dw};
}

class AddRmsNormFunction : public torch::autograd::Function<AddRmsNormFunction> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const at::Tensor& input,
                                                const std::optional<at::Tensor>& residual,
                                                const at::Tensor& input_weight, double eps) {
    const at::Tensor x = input.contiguous(), weight = input_weight.contiguous();
    at::Tensor h = x, added, sum;
    if (residual) {
      added = residual->contiguous();
      h = sum = at::empty_like(x);
    }
    const auto [y, rstd] = forward_rows(x, added, weight, sum, eps);
    context->save_for_backward({h, weight, rstd});
    context->saved_data["adds"] = residual.has_value();
    context->set_materialize_grads(false);
    return {h, y};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    // An output that was not used has no gradient.
    const at::Tensor &dh = grads[0], &dy = grads[1];
    at::Tensor d = dh, dw;
    if (dy.defined()) {
      const auto saved = context->get_saved_variables();
      std::tie(d, dw) = backward_rows(dy.contiguous(), dh.defined() ? dh.contiguous() : dh,
                                      saved[0], saved[1], saved[2]);
    }
    const bool adds = context->saved_data["adds"].toBool();
    return {d, adds ? d : at::Tensor(), dw, at::Tensor()};
  }
};

// In ATen.
at::Tensor normed(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::ScalarType accurate = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor wide = x.to(accurate);
  const at::Tensor y = wide * at::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + eps);
  return (y * weight.to(accurate)).to(x.scalar_type());
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> add_rms_norm_reference(const at::Tensor& x,
                                                          const std::optional<at::Tensor>& residual,
                                                          const at::Tensor& weight, double eps) {
  const at::Tensor h = residual ? x + *residual : x;
  return {h, normed(h, weight, eps)};
}

std::tuple<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x,
                                                const std::optional<at::Tensor>& residual,
                                                const at::Tensor& weight, double eps) {
  if (!has_kernel(x)) return add_rms_norm_reference(x, residual, weight, eps);
  const auto outputs = AddRmsNormFunction::apply(x, residual, weight, eps);
  return {outputs[0], outputs[1]};
}

}  // namespace lmtrain
