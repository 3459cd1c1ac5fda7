#include "device/dispatch.h"
#include "device/torch_headers.h"
#include "ops/operators.h"

namespace lmtrain {
namespace {

using Heads = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

[[maybe_unused]] cuda::HeadsView view_of(const at::Tensor& x_BHTE) {
  return {x_BHTE.data_ptr(), x_BHTE.stride(0), x_BHTE.stride(1), x_BHTE.stride(2)};
}

class QkvRopeFunction : public torch::autograd::Function<QkvRopeFunction> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const at::Tensor& input, const at::Tensor& cos,
                                                const at::Tensor& sin, int64_t num_heads,
                                                int64_t num_kv_heads) {
    const at::Tensor qkv = input.contiguous();
    const int64_t batch = qkv.size(0);
    const int64_t length = qkv.size(1);
    const int64_t num_angles = cos.size(0);
    const int64_t half = cos.size(-1);
    const int64_t size = 2 * half;
    const at::Tensor q = at::empty({batch, length, num_heads, size}, qkv.options());
    const at::Tensor k = at::empty({batch, length, num_kv_heads, size}, qkv.options());
    const at::Tensor v = at::empty({batch, length, num_kv_heads, size}, qkv.options());
    on_cuda(qkv, [&](const auto& call) {
      cuda::qkv_rope_forward(call, qkv.data_ptr(), elements<float>(cos), elements<float>(sin),
                             view_of(q.transpose(1, 2)), view_of(k.transpose(1, 2)),
                             view_of(v.transpose(1, 2)),
                             {batch, length, num_heads, num_kv_heads, half, num_angles});
    });
    context->save_for_backward({cos, sin});
    return {q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& cos = saved[0];
    const at::Tensor& sin = saved[1];
    // Any layout will do as long as a head's vector is contiguous, which is how SDPA hands its
    // gradients back.
    std::array<at::Tensor, 3> d;
    for (size_t i = 0; i < 3; ++i)
      d[i] = grads[i].stride(-1) == 1 ? grads[i] : grads[i].contiguous();
    const int64_t batch = d[0].size(0);
    const int64_t num_heads = d[0].size(1);
    const int64_t num_kv_heads = d[1].size(1);
    const int64_t length = d[0].size(2);
    const int64_t num_angles = cos.size(0);
    const int64_t half = cos.size(-1);
    const int64_t size = 2 * half;
    const int64_t width = (num_heads + 2 * num_kv_heads) * size;
    at::Tensor d_qkv = at::empty({batch, length, width}, d[0].options());
    on_cuda(d_qkv, [&](const auto& call) {
      cuda::qkv_rope_backward(call, view_of(d[0]), view_of(d[1]), view_of(d[2]),
                              elements<float>(cos), elements<float>(sin), d_qkv.data_ptr(),
                              {batch, length, num_heads, num_kv_heads, half, num_angles});
    });
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
  auto heads =
      QkvRopeFunction::apply(qkv, cos.contiguous(), sin.contiguous(), num_heads, num_kv_heads);
  return {heads[0], heads[1], heads[2]};
}

}  // namespace lmtrain
