#include "ops/flash_attention.h"

#include <ATen/SDPBackend.h>
#include <torch/csrc/autograd/custom_function.h>

#include "device/torch_headers.h"

namespace lmtrain {
namespace {

// x_BHTE as x_NHE. The heads of a packed row, as qkv_rope_in_place hands them out, are not copied:
// FlashAttention wants the elements of a head side by side, and reads heads and positions by their
// strides.
at::Tensor flat_positions(const at::Tensor& x_BHTE) {
  const at::Tensor x_BTHE = x_BHTE.transpose(1, 2);
  return (x_BTHE.stride(-1) == 1 ? x_BTHE : x_BTHE.contiguous()).flatten(0, 1);
}

at::Tensor heads_first(const at::Tensor& x_NHE, int64_t batch) {
  return x_NHE.unflatten(0, {batch, -1}).transpose(1, 2);
}

at::SDPBackend backend_for(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return static_cast<at::SDPBackend>(
      at::_fused_sdp_choice(q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true,
                            /*scale=*/std::nullopt, /*enable_gqa=*/q.size(1) != k.size(1)));
}

class FlashAttentionFunction : public torch::autograd::Function<FlashAttentionFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& q_BHTE,
                            const at::Tensor& k_BKTE, const at::Tensor& v_BKTE,
                            const at::Tensor& segments) {
    const at::Tensor q = flat_positions(q_BHTE);
    const at::Tensor k = flat_positions(k_BKTE);
    const at::Tensor v = flat_positions(v_BKTE);
    // No segment is longer than a row. The longest itself is known to the GPU alone, and asking
    // would wait for it; blocks of threads beyond a segment's end return at once.
    const int64_t longest = q_BHTE.size(2);
    const auto [y, logsumexp, random_state, unused, mask] = at::_flash_attention_forward(
        q, k, v, segments, segments, longest, longest, /*dropout_p=*/0.0, /*is_causal=*/true,
        /*return_debug_mask=*/false);
    context->save_for_backward({q, k, v, y, logsumexp, segments, random_state, unused});
    context->saved_data["longest"] = longest;
    return heads_first(y, q_BHTE.size(0));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& segments = saved[5];
    const int64_t longest = context->saved_data["longest"].toInt();
    const auto [dq, dk, dv] = at::_flash_attention_backward(
        flat_positions(grads[0]), saved[0], saved[1], saved[2], saved[3], saved[4], segments,
        segments, longest, longest, /*dropout_p=*/0.0, /*is_causal=*/true, saved[6], saved[7]);
    const int64_t batch = grads[0].size(0);
    return {heads_first(dq, batch), heads_first(dk, batch), heads_first(dv, batch), at::Tensor()};
  }
};

}  // namespace

bool has_flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const bool half_size = q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
  if (!q.is_cuda() || !half_size || q.size(-1) % 8 != 0 || q.size(-1) > 256) return false;
  // libtorch knows the GPU: it takes one of these for whole rows only if the GPU runs both.
  const at::SDPBackend backend = backend_for(q, k, v);
  return backend == at::SDPBackend::flash_attention || backend == at::SDPBackend::cudnn_attention;
}

at::Tensor flash_attention(const at::Tensor& q_BHTE, const at::Tensor& k_BKTE,
                           const at::Tensor& v_BKTE, const at::Tensor& segments) {
  return FlashAttentionFunction::apply(q_BHTE, k_BKTE, v_BKTE, segments);
}

bool cudnn_attention_allowed() { return at::globalContext().userEnabledCuDNNSDP(); }

void allow_cudnn_attention(bool allowed) { at::globalContext().setSDPUseCuDNN(allowed); }

WithoutCudnnAttention::WithoutCudnnAttention() : allowed_before_(cudnn_attention_allowed()) {
  allow_cudnn_attention(false);
}

WithoutCudnnAttention::~WithoutCudnnAttention() { allow_cudnn_attention(allowed_before_); }

std::string attention_backend(const at::Device& device, at::ScalarType dtype, int64_t num_heads,
                              int64_t num_kv_heads, int64_t head_size, int64_t length) {
  if (dtype == at::kFloat) num_kv_heads = num_heads;  // attention() repeats keys and values
  // As qkv_rope_in_place hands them out.
  const auto heads = at::empty({1, length, num_heads + 2 * num_kv_heads, head_size},
                               at::TensorOptions(device).dtype(dtype))
                         .requires_grad_(true)
                         .transpose(1, 2)
                         .split_with_sizes({num_heads, num_kv_heads, num_kv_heads}, 1);
  switch (backend_for(heads[0], heads[1], heads[2])) {
    case at::SDPBackend::flash_attention:
      return "FlashAttention";
    case at::SDPBackend::cudnn_attention:
      return "cuDNN";
    case at::SDPBackend::efficient_attention:
      return "memory-efficient attention";
    default:
      return "plain matrices";
  }
}

}  // namespace lmtrain
