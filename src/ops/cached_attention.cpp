#include "device/torch_headers.h"
#include "ops/operators.h"

namespace lmtrain {

at::Tensor cached_rope_attention(const at::Tensor& qkv, const at::Tensor& cos,
                                 const at::Tensor& sin, int64_t num_heads, int64_t num_kv_heads,
                                 const at::Tensor& keys, const at::Tensor& values,
                                 const std::optional<at::Tensor>& positions,
                                 const std::optional<at::Tensor>& mask) {
  const auto [q_BHTE, k_BKTE, v_BKTE] = qkv_rope(qkv, cos, sin, num_heads, num_kv_heads);
  if (!positions) {
    const int64_t length = qkv.size(1);
    keys.narrow(2, 0, length).copy_(k_BKTE);
    values.narrow(2, 0, length).copy_(v_BKTE);
    return rope_attention(qkv, cos, sin, num_heads, num_kv_heads, std::nullopt);
  }
  const at::Tensor at_position = positions->view({-1, 1, 1, 1}).expand_as(k_BKTE);
  keys.scatter_(2, at_position, k_BKTE);
  values.scatter_(2, at_position, v_BKTE);
  // The query heads of a key/value head stand where the positions of a row do, so that no kernel
  // has to repeat keys and values for them.
  const at::Tensor q_BKGE = q_BHTE.unflatten(1, {num_kv_heads, -1}).squeeze(3);
  return at::scaled_dot_product_attention(q_BKGE, keys, values, mask).flatten(1).unsqueeze(1);
}

}  // namespace lmtrain
