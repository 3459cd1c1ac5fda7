// These are the operators of the model, as C++ functions. register.cpp registers those that the
// model's TorchScript source calls as `lm.*`.
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
// statistics in fp32. Without a residual h is x. The backward sums the gradient of h and that
// through the norm before it rounds them.
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

// Returns x + bias, for each of the positions of x_BTC, in one pass. The gradient of bias_C is the
// sum over positions, in fp32.
at::Tensor add_bias(const at::Tensor& x, const at::Tensor& bias);
at::Tensor add_bias_reference(const at::Tensor& x, const at::Tensor& bias);

// Returns x weight', like at::linear, with products by ops/matmul.h.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight);
// Does the same with both operands of each of the three products (forward, gradient of x, gradient
// of the weight) in fp8 (ops/fp8.h): x and weight in e4m3, the gradient in e5m2; results have x's
// dtype. The weight's sizes must be multiples of kFp8Multiple. Where an operand has an infinity or
// a NaN, the whole result is not finite.
at::Tensor fp8_linear(const at::Tensor& x, const at::Tensor& weight);

// Splits qkv_BTC, C = (H + 2K)E, into q_BHTE, k_BKTE, v_BKTE and rotates q and k (RoPE, Su et al.,
// 2104.09864, with the two halves of a head paired like in transformers). cos_PR and sin_PR are
// fp32, R = E/2. With P = T they have a row of angles for each position of a row, with P = N one
// for each position of the batch. There is a kernel on a GPU alone: on a CPU rope_attention
// rotates.
std::tuple<at::Tensor, at::Tensor, at::Tensor> qkv_rope(const at::Tensor& qkv,
                                                        const at::Tensor& cos,
                                                        const at::Tensor& sin, int64_t num_heads,
                                                        int64_t num_kv_heads);
// Does the same in the memory of qkv, if that is contiguous: the three are views of it, and
// afterwards it holds rotated queries and keys, which nothing else must read for qkv. Otherwise a
// copy is rotated. Where another operator has kept qkv for its backward, that backward throws
// c10::Error. Where there is no kernel ATen's operators rotate, in place too.
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
// holds the flattened positions where the segments begin, then N. Segments at the end may be empty:
// they begin at N too. Attention stays inside a segment, and every row begins one. Without
// `segments` each row is one segment. The cost is the sum of the squares of the segments' lengths
// on a GPU in bf16 and fp16, and in rope_attention on a CPU; elsewhere segments cost a mask of [B,
// T, T].
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::optional<at::Tensor>& segments);
at::Tensor attention_reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const std::optional<at::Tensor>& segments);

// Returns attention of qkv_rope's q, k and v: qkv_BTC -> y_BTA, A = HE. On a CPU
// (kernels/cpu/attention.h) vectors are rotated when they are read, and gradients rotated back when
// they are written, in fp32 before they are rounded. By our kernels on a GPU queries and keys are
// rotated in the memory of qkv, and nothing else may read it afterwards (qkv_rope_in_place).
at::Tensor rope_attention(const at::Tensor& qkv, const at::Tensor& cos, const at::Tensor& sin,
                          int64_t num_heads, int64_t num_kv_heads,
                          const std::optional<at::Tensor>& segments);
at::Tensor rope_attention_reference(const at::Tensor& qkv, const at::Tensor& cos,
                                    const at::Tensor& sin, int64_t num_heads, int64_t num_kv_heads,
                                    const std::optional<at::Tensor>& segments);

// Returns rope_attention with dropout() of the weights that softmax gives: [B, H, T, T], which
// exist here as matrices. Its cost is the square of the row's length, whatever the segments.
at::Tensor rope_attention_dropout(const at::Tensor& qkv, const at::Tensor& cos,
                                  const at::Tensor& sin, int64_t num_heads, int64_t num_kv_heads,
                                  const std::optional<at::Tensor>& segments, const at::Tensor& keys,
                                  int64_t site, double p);

// Returns rope_attention of positions that follow others, for inference, and keeps their rotated
// keys and their values in keys_BKSE and values_BKSE, which have room for S positions of each row:
// qkv_BTC -> y_BTA. Call it under NoGradGuard.
// Without `positions` the rows begin: their T positions are kept at 0 .. T-1, and y has the bits of
// rope_attention. With positions_B, int64, T is 1: row b is at positions_B[b], where it is kept,
// and attends to the positions up to its own; cos and sin have a row of angles for each row.
// `mask`, bool [B, 1, 1, S], is then true at these positions; without it each row attends to all S
// of them. Where the mask is false keys and values must be finite.
at::Tensor cached_rope_attention(const at::Tensor& qkv, const at::Tensor& cos,
                                 const at::Tensor& sin, int64_t num_heads, int64_t num_kv_heads,
                                 const at::Tensor& keys, const at::Tensor& values,
                                 const std::optional<at::Tensor>& positions,
                                 const std::optional<at::Tensor>& mask);

// Returns SwiGLU (Shazeer, 2002.05202), silu(gate) * up, of the last dimension's halves [gate |
// up].
at::Tensor swiglu(const at::Tensor& gate_up);
at::Tensor swiglu_reference(const at::Tensor& gate_up);

// Returns linear(swiglu(gate_up), weight_DF), bit for bit. SwiGLU's value is computed again in the
// backward, or kept (keep_swiglu_value); on a CPU it and its gradient pass from product to product
// in the cache, where the products are ours (ops/matmul.h).
at::Tensor swiglu_linear(const at::Tensor& gate_up, const at::Tensor& weight);
at::Tensor swiglu_linear_reference(const at::Tensor& gate_up, const at::Tensor& weight);
// Sets whether swiglu_linear keeps SwiGLU's value for its backward. Kept, it takes F elements a
// position and layer, and the backward of SwiGLU moves five sixths of the bytes. The bits are the
// same. It is one setting for the process, at first false; it may be changed at any time, and
// counts for the forwards that begin afterwards. swiglu_fp8_linear does not read it.
bool keeps_swiglu_value();
void keep_swiglu_value(bool keeps);
// Returns fp8_linear(swiglu(gate_up), weight_DF).
at::Tensor swiglu_fp8_linear(const at::Tensor& gate_up, const at::Tensor& weight);

// Returns, as an fp32 scalar, the sum over positions of -log softmax(logits_NV)[target], times
// `scale`; positions whose target in targets_N (int64) is below 0 do not count. `scale` is an fp64
// scalar on the device of the logits: a captured graph reads it. The gradient includes the z-loss
// (Chowdhery et al., 2204.02311): `z_loss` x logsumexp(logits)^2, summed over the same positions,
// times `scale`. The value does not include it, except in the reference. Where a gradient is wanted
// it overwrites the logits, so that only one [N, V] tensor exists; the backward may run once only.
// For a target at or above V it throws c10::Error on a CPU; by our kernels on a GPU the loss is
// NaN.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                         const at::Tensor& scale, double z_loss);
at::Tensor cross_entropy_reference(const at::Tensor& logits, const at::Tensor& targets,
                                   const at::Tensor& scale, double z_loss);

// Returns cross_entropy of x_ND weight_VD', `chunk` positions, at least 1, at a time: only the
// logits of one chunk exist, and their gradient takes their place. The forward computes the
// gradients of x and of the weight, so the backward may run once only. The gradient of the weight
// is summed over the chunks in fp32.
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& targets, const at::Tensor& scale, double z_loss,
                                std::optional<int64_t> chunk = std::nullopt);
// Returns linear_cross_entropy, to the same bits, and the losses of all positions that it sums up:
// losses_N in fp32, without `scale`, 0 where nothing is predicted. Neither has a gradient.
std::tuple<at::Tensor, at::Tensor> linear_cross_entropies(const at::Tensor& x,
                                                          const at::Tensor& weight,
                                                          const at::Tensor& targets,
                                                          const at::Tensor& scale);
// Returns the chunk that is taken where none is given.
int64_t linear_cross_entropy_chunk(const at::Device& device, at::ScalarType dtype, int64_t vocab);
at::Tensor linear_cross_entropy_reference(const at::Tensor& x, const at::Tensor& weight,
                                          const at::Tensor& targets, const at::Tensor& scale,
                                          double z_loss);

// Returns x, [B, ...], with each element set to 0 with probability p, 0 to 0.5, and all others
// divided by 1 - p (Srivastava et al. 2014). p is rounded to a multiple of 2^-16. Whether an
// element falls out is a function of its row's key (keys_B, int64), of `site`, and of its place in
// the row: the same on every device, and however rows are cut into micro-batches.
at::Tensor dropout(const at::Tensor& x, const at::Tensor& keys, int64_t site, double p);
at::Tensor dropout_reference(const at::Tensor& x, const at::Tensor& keys, int64_t site, double p);

// Returns the rows of weight_VD that ids_BT (int64, in [0, V)) name, [B, T, D]. The gradient is
// summed in fp32 also for low-precision weights, where a frequent token's sum would otherwise stop
// growing.
at::Tensor embedding(const at::Tensor& ids, const at::Tensor& weight);

// Returns "lm", the namespace of the registered operators; calling it links the registration in.
const char* operators_namespace();

}  // namespace lmtrain
