#include "ops/dispatch.h"
#include "ops/operators.h"
#include "ops/shared_work.h"
#include "ops/torch_headers.h"

namespace lmtrain {
namespace {

class SwigluFunction : public torch::autograd::Function<SwigluFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input) {
    const at::Tensor gate_up = input.contiguous();
    auto shape = gate_up.sizes().vec();
    const int64_t dim = shape.back() / 2;
    shape.back() = dim;
    const at::Tensor y = at::empty(shape, gate_up.options());
    on_cpu(y, [&]<class T>(T) {
      share_work(y.numel() / dim, grain_rows(dim), [&](int64_t begin, int64_t end) {
        cpu_kernels<T>().swiglu_forward(elements<T>(gate_up) + begin * 2 * dim,
                                        elements<T>(y) + begin * dim, end - begin, dim);
      });
    });
    on_cuda(y, [&](const auto& call) {
      cuda::swiglu_forward(call, gate_up.data_ptr(), y.data_ptr(), y.numel() / dim, dim);
    });
    context->save_for_backward({gate_up});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const at::Tensor gate_up = context->get_saved_variables()[0];
    const at::Tensor dy = grads[0].contiguous();
    const int64_t dim = dy.size(-1);
    at::Tensor d_gate_up = at::empty_like(gate_up);
    on_cpu(dy, [&]<class T>(T) {
      share_work(dy.numel() / dim, grain_rows(dim), [&](int64_t begin, int64_t end) {
        cpu_kernels<T>().swiglu_backward(
            elements<T>(dy) + begin * dim, elements<T>(gate_up) + begin * 2 * dim,
            elements<T>(d_gate_up) + begin * 2 * dim, end - begin, dim);
      });
    });
    on_cuda(dy, [&](const auto& call) {
      cuda::swiglu_backward(call, dy.data_ptr(), gate_up.data_ptr(), d_gate_up.data_ptr(),
                            dy.numel() / dim, dim);
    });
    return {d_gate_up};
  }
};

}  // namespace

at::Tensor swiglu_reference(const at::Tensor& gate_up) {
  const auto halves = gate_up.chunk(2, -1);
  return at::silu(halves[0]) * halves[1];
}

at::Tensor swiglu(const at::Tensor& gate_up) {
  return has_kernel(gate_up) ? SwigluFunction::apply(gate_up) : swiglu_reference(gate_up);
}

}  // namespace lmtrain
