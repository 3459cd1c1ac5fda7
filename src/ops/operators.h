// The operators of the model, as C++ functions. register.cpp registers operators that the model's
// TorchScript source calls as `lm.*`.
//
// A fused operator has a hand-written forward and backward for fp32 and bf16 on a CPU
// (kernels/cpu/kernels.h) and for these and fp16 on a GPU (kernels/cuda/kernels.h). Its ATen
// composition, `*_reference`, is its oracle, and serves all other tensors under PyTorch's own
// autograd (dispatch.h). Shape suffixes: B batch, T length, D hidden, F intermediate, H query
// heads, K key/value heads, E head size, V vocabulary, N = B x T positions. x weight' is the
// product with the transposed weight.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace lmtrain {

// Returns (h, y): h = x + residual, rounded to the working dtype, and its RMSNorm (Zhang &
// Sennrich, 1910.07467) y = h / sqrt(mean(h^2) + eps) * weight over the last dimension, with
// statistics in fp32. Without a residual h is x. The backward adds the gradient of h to the
// gradient through the norm, and then rounds once.
std::tuple<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x,
                                                const std::optional<at::Tensor>& residual,
                                                const at::Tensor& weight, double eps);
std::tuple<at::Tensor, at::Tensor> add_rms_norm_reference(const at::Tensor& x,
                                                          const std::optional<at::Tensor>& residual,
                                                          const at::Tensor& weight, double eps);

// Returns qkv_BTC, C = (H + 2K)E, with each head of queries and of keys replaced by its RMSNorm
// (add_rms_norm without a residual) with q_weight_E or k_weight_E, and the values as they are: the
// QK-norm of Qwen3 (transformers, modeling_qwen3.py; Dehghani et al., 2302.05442).
at::Tensor qk_norm(const at::Tensor& qkv, const at::Tensor& q_weight, const at::Tensor& k_weight,
                   int64_t num_heads, int64_t num_kv_heads, double eps);
at::Tensor qk_norm_reference(const at::Tensor& qkv, const at::Tensor& q_weight,
                             const at::Tensor& k_weight, int64_t num_heads, int64_t num_kv_heads,
                             double eps);

// Returns x_BTC + bias_C. The gradient of the bias is summed over positions in fp32.
at::Tensor add_bias(const at::Tensor& x, const at::Tensor& bias);
at::Tensor add_bias_reference(const at::Tensor& x, const at::Tensor& bias);

// Returns x weight', like at::linear, for x [..., I] and weight_OI, with products by ops/matmul.h.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight);
// Does the same with fp8 operands (ops/fp8.h) in all three products (forward, gradient of x,
// gradient of the weight): x and weight in e4m3, the gradient in e5m2. Results have x's dtype. The
// weight's sizes must be multiples of kFp8Multiple. If an operand has an infinity or a NaN, no
// element of the result is finite.
at::Tensor fp8_linear(const at::Tensor& x, const at::Tensor& weight);

// Returns q_BHTE, k_BKTE, v_BKTE of qkv_BTC, C = (H + 2K)E, with q and k rotated by RoPE (Su et
// al., 2104.09864; the two halves of a head are paired, as in transformers). qkv does not change.
// cos_PR and sin_PR are fp32, R = E/2. P = T: a row of angles for each position of a row; P = N:
// for each position of the batch. Only a GPU has a kernel; on a CPU rope_attention rotates.
std::tuple<at::Tensor, at::Tensor, at::Tensor> qkv_rope(const at::Tensor& qkv,
                                                        const at::Tensor& cos,
                                                        const at::Tensor& sin, int64_t num_heads,
                                                        int64_t num_kv_heads);
// Does the same in the memory of qkv, if that is contiguous, else in a copy. The results are views
// of that memory, so nothing may read qkv afterwards. If another operator has kept qkv for its
// backward, that backward throws c10::Error.
std::tuple<at::Tensor, at::Tensor, at::Tensor> qkv_rope_in_place(const at::Tensor& qkv,
                                                                 const at::Tensor& cos,
                                                                 const at::Tensor& sin,
                                                                 int64_t num_heads,
                                                                 int64_t num_kv_heads);
std::tuple<at::Tensor, at::Tensor, at::Tensor> qkv_rope_reference(const at::Tensor& qkv,
                                                                  const at::Tensor& cos,
                                                                  const at::Tensor& sin,
                                                                  int64_t num_heads,
                                                                  int64_t num_kv_heads);

// Returns softmax(q k' / sqrt(E)) v over the positions up to the query's own, with H/K query heads
// to a key/value head; q_BHTE, k_BKTE, v_BKTE -> y_BHTE. `segments`, int32 [S + 1], ascending,
// holds the flattened positions where the segments begin, then N. Empty segments may follow at the
// end; they begin at N too. Attention stays inside a segment, and every row begins one. Without
// `segments` each row is one segment. The cost is the sum of the squares of the segments' lengths
// with FlashAttention (has_flash_attention()), and in rope_attention on a CPU; elsewhere segments
// cost a mask [B, T, T].
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::optional<at::Tensor>& segments);
at::Tensor attention_reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const std::optional<at::Tensor>& segments);

// Returns attention of qkv_rope's q, k and v: qkv_BTC -> y_BTA, A = HE. Our kernels on a GPU rotate
// in the memory of qkv, so nothing may read qkv afterwards (qkv_rope_in_place); this holds for the
// two operators below as well. On a CPU the kernel rotates what it reads, and leaves qkv alone.
at::Tensor rope_attention(const at::Tensor& qkv, const at::Tensor& cos, const at::Tensor& sin,
                          int64_t num_heads, int64_t num_kv_heads,
                          const std::optional<at::Tensor>& segments);
at::Tensor rope_attention_reference(const at::Tensor& qkv, const at::Tensor& cos,
                                    const at::Tensor& sin, int64_t num_heads, int64_t num_kv_heads,
                                    const std::optional<at::Tensor>& segments);

// Returns rope_attention with dropout() of the softmax's weights [B, H, T, T], which exist in
// memory. `keys` and `site` are as for dropout(). The cost is the square of the row's length for
// any segments.
at::Tensor rope_attention_dropout(const at::Tensor& qkv, const at::Tensor& cos,
                                  const at::Tensor& sin, int64_t num_heads, int64_t num_kv_heads,
                                  const std::optional<at::Tensor>& segments, const at::Tensor& keys,
                                  int64_t site, double p);

// Returns rope_attention of new positions, for inference: qkv_BTC -> y_BTA. Writes their rotated
// keys and their values to the caches keys_BKSE and values_BKSE, of S positions a row. Call it
// under NoGradGuard. Without `positions` the rows begin: their T positions go to 0 .. T-1 of the
// caches, and y has the bits of rope_attention. With positions_B, int64, T is 1: the new position
// of row b goes to positions_B[b], and attends to the cached positions where `mask`, bool [B, 1, 1,
// S], is true; without a mask to all S. cos and sin then have a row of angles for each row. Cached
// keys and values must be finite, also where the mask is false.
at::Tensor cached_rope_attention(const at::Tensor& qkv, const at::Tensor& cos,
                                 const at::Tensor& sin, int64_t num_heads, int64_t num_kv_heads,
                                 const at::Tensor& keys, const at::Tensor& values,
                                 const std::optional<at::Tensor>& positions,
                                 const std::optional<at::Tensor>& mask);

// Returns SwiGLU (Shazeer, 2002.05202), silu(gate) * up, of the last dimension's halves [gate |
// up].
at::Tensor swiglu(const at::Tensor& gate_up);
at::Tensor swiglu_reference(const at::Tensor& gate_up);

// Returns linear(swiglu(gate_up), weight_DF), bit for bit. The backward computes SwiGLU's value
// again, unless it is kept (keep_swiglu_value). With our products (ops/matmul.h) on a CPU, the
// value in the forward and the value's gradient stay in the cache.
at::Tensor swiglu_linear(const at::Tensor& gate_up, const at::Tensor& weight);
at::Tensor swiglu_linear_reference(const at::Tensor& gate_up, const at::Tensor& weight);
// Sets whether swiglu_linear keeps SwiGLU's value for its backward: F elements a position and
// layer, for a backward of SwiGLU that moves a sixth fewer bytes. Results have the same bits. The
// setting is of the process, false at first. It counts for later forwards, not for fp8_mlp.
bool keeps_swiglu_value();
void keep_swiglu_value(bool keeps);
// Returns swiglu_linear(linear(x, gate_up_weight_2FD), down_weight_DF), x [..., D].
at::Tensor mlp(const at::Tensor& x, const at::Tensor& gate_up_weight,
               const at::Tensor& down_weight);
// Returns the same with both products by fp8_linear. With our kernels on a GPU, SwiGLU's find the
// largest |x| of what they write, so the casts read it once instead of twice. The reference has the
// same bits.
at::Tensor fp8_mlp(const at::Tensor& x, const at::Tensor& gate_up_weight,
                   const at::Tensor& down_weight);
at::Tensor fp8_mlp_reference(const at::Tensor& x, const at::Tensor& gate_up_weight,
                             const at::Tensor& down_weight);

// Returns, as an fp32 scalar, the sum over positions of -log softmax(logits_NV)[target], times
// `scale`; positions whose target in targets_N (int64) is below 0 do not count. `scale` is an fp64
// scalar on the device of the logits, where a captured graph reads it. The gradient includes the
// z-loss (Chowdhery et al., 2204.02311): `z_loss` x logsumexp(logits)^2, summed over the same
// positions, times `scale`. Only the reference includes it in the value. Our kernels overwrite the
// logits by their gradient if one is wanted, and the backward may then run once only. A target at
// or above V throws c10::Error on a CPU; with our kernels on a GPU the loss is NaN.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                         const at::Tensor& scale, double z_loss);
at::Tensor cross_entropy_reference(const at::Tensor& logits, const at::Tensor& targets,
                                   const at::Tensor& scale, double z_loss);

// Returns cross_entropy of x_ND weight_VD', computed for `chunk` positions at a time, at least 1:
// only the logits of one chunk exist. Without `chunk` it is linear_cross_entropy_chunk(). The
// forward computes the gradients of x and of the weight, so the backward may run once only. The
// gradient of the weight is summed over the chunks in fp32.
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& targets, const at::Tensor& scale, double z_loss,
                                std::optional<int64_t> chunk = std::nullopt);
// Returns the loss of each position: losses_N in fp32, 0 where the target is below 0, without a
// gradient. With our kernels linear_cross_entropy without z_loss is their sum, taken in fp64, times
// `scale`; libtorch's composition sums in the dtype of the loss.
at::Tensor linear_cross_entropies(const at::Tensor& x, const at::Tensor& weight,
                                  const at::Tensor& targets);
// Returns the number of positions of a chunk, if none is given; at least 1024.
int64_t linear_cross_entropy_chunk(const at::Device& device, at::ScalarType dtype, int64_t vocab);
at::Tensor linear_cross_entropy_reference(const at::Tensor& x, const at::Tensor& weight,
                                          const at::Tensor& targets, const at::Tensor& scale,
                                          double z_loss);

// Returns x, [B, ...], with each element set to 0 with probability p, 0 to 0.5, and all others
// divided by 1 - p (Srivastava et al. 2014). p is rounded to a multiple of 2^-16. Only the key of
// its row (keys_B, int64), `site` and its place in the row decide whether an element becomes 0: not
// the device, and not the micro-batch.
at::Tensor dropout(const at::Tensor& x, const at::Tensor& keys, int64_t site, double p);
at::Tensor dropout_reference(const at::Tensor& x, const at::Tensor& keys, int64_t site, double p);

// Returns the rows [B, T, D] of weight_VD that ids_BT (int64, in [0, V)) select. The gradient is
// summed in fp32: in low precision a frequent token's sum would stop growing.
at::Tensor embedding(const at::Tensor& ids, const at::Tensor& weight);

// Returns "lm", the namespace of the registered operators; calling it links the registration in.
const char* operators_namespace();

}  // namespace lmtrain
