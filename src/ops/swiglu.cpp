#include <torch/csrc/autograd/custom_function.h>

#include <atomic>

#include "device/dispatch.h"
#include "device/torch_headers.h"
#include "ops/fp8.h"
#include "ops/matmul.h"
#include "ops/operators.h"
#include "ops/weight_gradient.h"

namespace lmtrain {
namespace {

// gate_NF and up_NF of [gate | up].
std::pair<at::Tensor, at::Tensor> halves(const at::Tensor& gate_up) {
  const int64_t dim = gate_up.size(-1) / 2;
  const at::Tensor rows = gate_up.view({-1, 2 * dim});
  return {rows.narrow(1, 0, dim), rows.narrow(1, dim, dim)};
}

template <class T>
T* at_part(const at::Tensor& x, const MatrixPart& part, int64_t row) {
  return elements<T>(x) + (part.row + row) * x.stride(0) + part.column;
}

// y_NF part by part.
template <class T>
Prologue<T> swiglu_parts(const at::Tensor& gate_up) {
  const auto [gate, up] = halves(gate_up);
  return {{gate, up}, [gate = gate, up = up](const MatrixPart& part, T* y, int64_t stride) {
            for (int64_t row = 0; row < part.rows; ++row, y += stride) {
              cpu_kernels<T>().swiglu_forward(at_part<T>(gate, part, row),
                                              at_part<T>(up, part, row), y, part.columns);
            }
          }};
}

// Turns dy_NF, part by part, into d_gate_up, and computes y again. Only what is read is fetched
// beside the products: they have not the time for all.
template <class T>
Epilogue<T> swiglu_backward_parts(const at::Tensor& gate_up, const at::Tensor& d_gate_up,
                                  const at::Tensor& y) {
  const auto [gate, up] = halves(gate_up);
  const auto [d_gate, d_up] = halves(d_gate_up);
  return {{gate, up},
          [gate = gate, up = up, d_gate = d_gate, d_up = d_up, y](const MatrixPart& part,
                                                                  const T* dy, int64_t stride) {
            for (int64_t row = 0; row < part.rows; ++row, dy += stride) {
              cpu_kernels<T>().swiglu_backward(
                  dy, at_part<T>(gate, part, row), at_part<T>(up, part, row),
                  at_part<T>(d_gate, part, row), at_part<T>(d_up, part, row),
                  at_part<T>(y, part, row), part.columns);
            }
          }};
}

float* numbers_or_null(const at::Tensor& x) { return x.defined() ? elements<float>(x) : nullptr; }

void swiglu_backward_on_cuda(const at::Tensor& dy, const at::Tensor& gate_up,
                             const at::Tensor& d_gate_up, const at::Tensor& y,
                             const at::Tensor& amax) {
  on_cuda(dy, [&](const auto& call) {
    cuda::swiglu_backward(call, dy.data_ptr(), gate_up.data_ptr(), d_gate_up.data_ptr(),
                          y.defined() ? y.data_ptr() : nullptr, numbers_or_null(amax), dy.size(0),
                          dy.size(1));
  });
}

at::Tensor empty_rows(const at::Tensor& gate_up) {
  const int64_t dim = gate_up.size(-1) / 2;
  return at::empty({gate_up.numel() / (2 * dim), dim}, gate_up.options());
}

std::atomic<bool> keeps_value{false};

// y_NF. On a GPU `amax` is undefined, or kSwigluAmaxParts zeros to raise.
at::Tensor swiglu_value(const at::Tensor& gate_up, const at::Tensor& amax = {}) {
  at::Tensor y = empty_rows(gate_up);
  on_cpu(y, [&]<class T>(T) { visit_all(swiglu_parts<T>(gate_up), y); });
  on_cuda(y, [&](const auto& call) {
    cuda::swiglu_forward(call, gate_up.data_ptr(), y.data_ptr(), numbers_or_null(amax), y.size(0),
                         y.size(1));
  });
  return y;
}

// d_gate_up of dy_NF.
at::Tensor swiglu_gradient(const at::Tensor& dy, const at::Tensor& gate_up,
                           const at::Tensor& amax = {}) {
  at::Tensor d_gate_up = at::empty_like(gate_up);
  on_cpu(dy, [&]<class T>(T) {
    visit_all(swiglu_backward_parts<T>(gate_up, d_gate_up, empty_rows(gate_up)), dy);
  });
  swiglu_backward_on_cuda(dy, gate_up, d_gate_up, {}, amax);
  return d_gate_up;
}

// x, and fp8_amax(x) or, on a GPU, what the kernel that wrote x has found instead.
struct WithAmax {
  at::Tensor x, amax;
};

// write(amax) returns x, on the device of `like`.
template <class Write>
WithAmax with_amax(const at::Tensor& like, const Write& write) {
  if (!like.is_cuda()) {
    const at::Tensor x = write(at::Tensor());
    return {x, fp8_amax(x)};
  }
  const at::Tensor amax = at::zeros({cuda::kSwigluAmaxParts}, like.options().dtype(at::kFloat));
  const at::Tensor x = write(amax);
  return {x, amax};
}

class SwigluFunction : public torch::autograd::Function<SwigluFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input) {
    const at::Tensor gate_up = input.contiguous();
    const at::Tensor y = swiglu_value(gate_up);
    context->save_for_backward({gate_up});
    return in_shape_of(gate_up, y);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const at::Tensor gate_up = context->get_saved_variables()[0];
    return {swiglu_gradient(as_rows(grads[0]), gate_up)};
  }
};

// Keeps gate_up, and y where it is told to: else y is computed again in the backward, with the
// gradient.
class SwigluLinearFunction : public torch::autograd::Function<SwigluLinearFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& input_weight) {
    const at::Tensor gate_up = input.contiguous();
    const at::Tensor weight_OF = input_weight.contiguous();
    const int64_t rows = gate_up.numel() / gate_up.size(-1);
    const bool keeps = keeps_swiglu_value();
    at::Tensor out, y;
    if (keeps || gate_up.is_cuda()) {
      y = swiglu_value(gate_up);
      out = product(y, weight_OF.t());
    } else {
      on_cpu(gate_up,
             [&]<class T>(T) { out = product_of(swiglu_parts<T>(gate_up), rows, weight_OF.t()); });
    }
    context->save_for_backward({gate_up, weight_OF, keeps ? y : at::Tensor()});
    return in_shape_of(gate_up, out);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& gate_up = saved[0];
    const at::Tensor& weight_OF = saved[1];
    const at::Tensor d_out = as_rows(grads[0]);
    if (const at::Tensor& kept = saved[2]; kept.defined()) {
      return {swiglu_gradient(product(d_out, weight_OF), gate_up),
              weight_gradient(d_out, kept, weight_OF)};
    }
    at::Tensor d_gate_up = at::empty_like(gate_up);
    const at::Tensor y = empty_rows(gate_up);
    on_cpu(gate_up, [&]<class T>(T) {
      product_into(d_out, weight_OF, swiglu_backward_parts<T>(gate_up, d_gate_up, y));
    });
    if (gate_up.is_cuda()) {
      swiglu_backward_on_cuda(product(d_out, weight_OF), gate_up, d_gate_up, y, {});
    }
    return {d_gate_up, weight_gradient(d_out, y, weight_OF)};
  }
};

// Both products and SwiGLU between them. What SwiGLU writes, in either direction, goes into a
// product: its kernels find the largest numbers, so that no pass of their own need read them.
class Fp8MlpFunction : public torch::autograd::Function<Fp8MlpFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& gate_up_weight, const at::Tensor& down_weight) {
    const at::Tensor x = as_rows(input);
    const auto [gate_up, in] = fp8_linear_forward(x, fp8_amax(x), gate_up_weight.contiguous());
    const WithAmax y =
        with_amax(gate_up, [&](const at::Tensor& amax) { return swiglu_value(gate_up, amax); });
    const auto [result, out] = fp8_linear_forward(y.x, y.amax, down_weight.contiguous());
    context->save_for_backward({in.x_IN, in.x_inverse_scale, in.weight_OI, in.weight_amax, gate_up,
                                out.x_IN, out.x_inverse_scale, out.weight_OI, out.weight_amax});
    context->saved_data["sizes"] = input.sizes();
    return in_shape_of(input, result);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const Fp8Linear in = {saved[0], saved[1], saved[2], saved[3]};
    const at::Tensor& gate_up = saved[4];
    const Fp8Linear out = {saved[5], saved[6], saved[7], saved[8]};
    const at::Tensor d_result = as_rows(grads[0]);
    const auto [dy, d_down_weight] = fp8_linear_backward(out, d_result, fp8_amax(d_result));
    const WithAmax d_gate_up = with_amax(gate_up, [&, dy = dy](const at::Tensor& amax) {
      return swiglu_gradient(dy, gate_up, amax);
    });
    const auto [dx, d_gate_up_weight] = fp8_linear_backward(in, d_gate_up.x, d_gate_up.amax);
    return {dx.view(context->saved_data["sizes"].toIntVector()), d_gate_up_weight, d_down_weight};
  }
};

}  // namespace

bool keeps_swiglu_value() { return keeps_value; }

void keep_swiglu_value(bool keeps) { keeps_value = keeps; }

at::Tensor swiglu_reference(const at::Tensor& gate_up) {
  const auto halves = gate_up.chunk(2, -1);
  return at::silu(halves[0]) * halves[1];
}

at::Tensor swiglu(const at::Tensor& gate_up) {
  return has_kernel(gate_up) ? SwigluFunction::apply(gate_up) : swiglu_reference(gate_up);
}

at::Tensor swiglu_linear_reference(const at::Tensor& gate_up, const at::Tensor& weight) {
  return at::linear(swiglu_reference(gate_up), weight);
}

at::Tensor swiglu_linear(const at::Tensor& gate_up, const at::Tensor& weight) {
  return has_kernel(gate_up) ? SwigluLinearFunction::apply(gate_up, weight)
                             : swiglu_linear_reference(gate_up, weight);
}

at::Tensor mlp(const at::Tensor& x, const at::Tensor& gate_up_weight,
               const at::Tensor& down_weight) {
  return swiglu_linear(lmtrain::linear(x, gate_up_weight), down_weight);
}

at::Tensor fp8_mlp_reference(const at::Tensor& x, const at::Tensor& gate_up_weight,
                             const at::Tensor& down_weight) {
  return fp8_linear(swiglu(fp8_linear(x, gate_up_weight)), down_weight);
}

at::Tensor fp8_mlp(const at::Tensor& x, const at::Tensor& gate_up_weight,
                   const at::Tensor& down_weight) {
  const bool wants_gradient =
      at::GradMode::is_enabled() &&
      (x.requires_grad() || gate_up_weight.requires_grad() || down_weight.requires_grad());
  return wants_gradient && has_kernel(x) ? Fp8MlpFunction::apply(x, gate_up_weight, down_weight)
                                         : fp8_mlp_reference(x, gate_up_weight, down_weight);
}

}  // namespace lmtrain
