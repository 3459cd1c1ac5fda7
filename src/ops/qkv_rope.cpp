#include <torch/csrc/autograd/custom_function.h>

#include "device/dispatch.h"
#include "device/torch_headers.h"
#include "ops/operators.h"

namespace lmtrain {
namespace {

using Heads = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

[[maybe_unused]] cuda::HeadsView view_of(const at::Tensor& x_BHTE) {
  return {x_BHTE.data_ptr(), x_BHTE.stride(0), x_BHTE.stride(1), x_BHTE.stride(2)};
}

// Rotates the heads of q and k in the memory of x_BTC, by ATen's operators. `turn` is 1 or, for the
// way back, -1.
void rotate_by_aten(const at::Tensor& x_BTC, const at::Tensor& cos, const at::Tensor& sin,
                    int64_t num_heads, int64_t num_kv_heads, int turn) {
  const int64_t size = 2 * cos.size(-1);
  const int64_t width = (num_heads + num_kv_heads) * size;
  const auto [q, k, v] = qkv_rope_reference(x_BTC, cos, turn * sin, num_heads, num_kv_heads);
  x_BTC.narrow(-1, 0, width).copy_(at::cat({q, k}, 1).transpose(1, 2).flatten(2));
}

// Rotates in the memory of its input. It does not mark its results as the changed input: autograd
// forbids that for a leaf, and for three results. But an operator that has kept the input for its
// backward finds another version of it, and throws. The gradient does not depend on the values.
class QkvRopeFunction : public torch::autograd::Function<QkvRopeFunction> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const at::Tensor& input, const at::Tensor& cos,
                                                const at::Tensor& sin, int64_t num_heads,
                                                int64_t num_kv_heads) {
    const at::Tensor qkv = input.contiguous().tensor_data();  // the same memory and version
    const int64_t half = cos.size(-1);
    if (has_cuda_kernel(qkv)) {
      on_cuda(qkv, [&](const auto& call) {
        cuda::qkv_rope_forward(
            call, qkv.data_ptr(), elements<float>(cos), elements<float>(sin),
            {qkv.size(0), qkv.size(1), num_heads, num_kv_heads, half, cos.size(0)});
      });
      qkv.unsafeGetTensorImpl()->bump_version();
    } else {
      rotate_by_aten(qkv, cos, sin, num_heads, num_kv_heads, /*turn=*/1);
    }
    context->save_for_backward({cos, sin});
    const at::Tensor heads_BHTE =
        qkv.unflatten(-1, {num_heads + 2 * num_kv_heads, 2 * half}).transpose(1, 2);
    return heads_BHTE.split_with_sizes({num_heads, num_kv_heads, num_kv_heads}, 1);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& cos = saved[0];
    const at::Tensor& sin = saved[1];
    const int64_t batch = grads[0].size(0);
    const int64_t num_heads = grads[0].size(1);
    const int64_t num_kv_heads = grads[1].size(1);
    const int64_t length = grads[0].size(2);
    at::Tensor d_qkv;
    if (has_cuda_kernel(grads[0])) {
      // Any layout will do as long as a head's vector is contiguous, which is how SDPA hands its
      // gradients back.
      std::array<at::Tensor, 3> d;
      for (size_t i = 0; i < 3; ++i)
        d[i] = grads[i].stride(-1) == 1 ? grads[i] : grads[i].contiguous();
      const int64_t half = cos.size(-1);
      d_qkv = at::empty({batch, length, (num_heads + 2 * num_kv_heads) * 2 * half}, d[0].options());
      on_cuda(d_qkv, [&](const auto& call) {
        cuda::qkv_rope_backward(call, view_of(d[0]), view_of(d[1]), view_of(d[2]),
                                elements<float>(cos), elements<float>(sin), d_qkv.data_ptr(),
                                {batch, length, num_heads, num_kv_heads, half, cos.size(0)});
      });
    } else {
      d_qkv = at::cat({grads[0], grads[1], grads[2]}, 1).transpose(1, 2).flatten(2);
      rotate_by_aten(d_qkv, cos, sin, num_heads, num_kv_heads, /*turn=*/-1);
    }
    return {d_qkv, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

Heads qkv_rope_reference(const at::Tensor& qkv, const at::Tensor& cos, const at::Tensor& sin,
                         int64_t num_heads, int64_t num_kv_heads) {
  const int64_t length = qkv.size(1);
  const int64_t half = cos.size(-1);
  const at::Tensor heads =
      qkv.unflatten(-1, {num_heads + 2 * num_kv_heads, 2 * half}).transpose(1, 2);
  const auto rotate = [&](const at::Tensor& x) {
    const at::ScalarType accurate = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const auto halves = x.to(accurate).chunk(2, -1);
    const at::Tensor c = cos.to(accurate).unflatten(0, {-1, length}).unsqueeze(1);
    const at::Tensor s = sin.to(accurate).unflatten(0, {-1, length}).unsqueeze(1);
    return at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1)
        .to(x.scalar_type());
  };
  const auto parts = heads.split_with_sizes({num_heads, num_kv_heads, num_kv_heads}, 1);
  return {rotate(parts[0]), rotate(parts[1]), parts[2]};
}

Heads qkv_rope(const at::Tensor& qkv, const at::Tensor& cos, const at::Tensor& sin,
               int64_t num_heads, int64_t num_kv_heads) {
  if (!has_cuda_kernel(qkv)) return qkv_rope_reference(qkv, cos, sin, num_heads, num_kv_heads);
  return qkv_rope_in_place(qkv.clone(at::MemoryFormat::Contiguous), cos, sin, num_heads,
                           num_kv_heads);
}

Heads qkv_rope_in_place(const at::Tensor& qkv, const at::Tensor& cos, const at::Tensor& sin,
                        int64_t num_heads, int64_t num_kv_heads) {
  const auto heads =
      QkvRopeFunction::apply(qkv, cos.contiguous(), sin.contiguous(), num_heads, num_kv_heads);
  return {heads[0], heads[1], heads[2]};
}

}  // namespace lmtrain
