// Defines the Llama, once, in TorchScript (Touvron et al., 2302.13971; with the names of
// transformers' LlamaForCausalLM). With the constant has_qk_norm it is a Qwen3 (Yang et al.,
// 2505.09388; Qwen3ForCausalLM): each head of queries and of keys goes through a norm. With the
// constant has_qkv_bias it is a Qwen2 (Yang et al., 2407.10671; Qwen2ForCausalLM): queries, keys
// and values have a bias, layers[i]["qkv_bias"].
//
// model/llama.cpp compiles it. Its resolver gives the names of ModelConfig as constants and `lm` as
// our operators (ops/operators.h); `hidden_linear` is lm.linear or, in fp8, lm.fp8_linear, and
// `hidden_mlp` is lm.mlp or lm.fp8_mlp. Weights are dictionaries:
// `layers[i]["qkv_proj"]` holds q_proj, k_proj and v_proj stacked, "gate_up_proj" holds gate_proj
// and up_proj; they are adjacent in memory, so stacking costs nothing.
//
// `next_logits` computes logits of new positions after earlier ones, whose keys and values a cache
// keeps (model/key_value_cache.h).
//
// Layers pass on the residual stream x as a pair: `delta` is the newest summand of x, `residual`
// the sum of all earlier summands (None before the first layer). lm.add_rms_norm returns their sum
// and the norm of the sum. With activation checkpointing, which keeps only the sum, model/llama.cpp
// calls embed, whole_layer and head_loss one by one.
//
// Dropout needs keys_B (MicroBatch::dropout_keys); without keys, as in evaluations, there is none.
// Its three sites of layer i are 3i (the weights of attention), 3i + 1 and 3i + 2 (what attention
// and the MLP add to the residual stream).
//
// The suffixes of names are shapes: B batch, T length, D hidden, H query heads, K key/value heads,
// E head size, C = (H + 2K)E, A = HE, F intermediate, R = E/2, V vocabulary, S positions that a
// cache has room for; P rows of angles, T of them or, where the rows of the batch have segments or
// positions of their own, B x T.
#pragma once

namespace lmtrain {

// Stands before kLlamaLogitsSource in training.
inline constexpr const char* kDropoutSource = R"(
def attended(qkv_BTC: Tensor, cos_PR: Tensor, sin_PR: Tensor, segments: Optional[Tensor], keys_B: Optional[Tensor],
             index: int) -> Tensor:
    if dropout > 0.0 and keys_B is not None:
        return lm.rope_attention_dropout(qkv_BTC, cos_PR, sin_PR, num_attention_heads, num_key_value_heads, segments,
                                         keys_B, 3 * index, dropout)
    return lm.rope_attention(qkv_BTC, cos_PR, sin_PR, num_attention_heads, num_key_value_heads, segments)

def dropped(x_BTD: Tensor, keys_B: Optional[Tensor], site: int) -> Tensor:
    if dropout > 0.0 and keys_B is not None:
        return lm.dropout(x_BTD, keys_B, site, dropout)
    return x_BTD
)";

// Stands before kLlamaLogitsSource in an exported module.
inline constexpr const char* kNoDropoutSource = R"(
def attended(qkv_BTC: Tensor, cos_PR: Tensor, sin_PR: Tensor, segments: Optional[Tensor], keys_B: Optional[Tensor],
             index: int) -> Tensor:
    return lm.rope_attention(qkv_BTC, cos_PR, sin_PR, num_attention_heads, num_key_value_heads, segments)

def dropped(x_BTD: Tensor, keys_B: Optional[Tensor], site: int) -> Tensor:
    return x_BTD
)";

// Both a model in training and an exported module (model/torchscript.h) have these functions.
inline constexpr const char* kLlamaLogitsSource = R"(
def queries_keys_values(x_BTD: Tensor, layer: Dict[str, Tensor]) -> Tensor:
    qkv_BTC = hidden_linear(x_BTD, layer["qkv_proj"])
    if has_qkv_bias:
        qkv_BTC = lm.add_bias(qkv_BTC, layer["qkv_bias"])
    if has_qk_norm:
        qkv_BTC = lm.qk_norm(qkv_BTC, layer["q_norm"], layer["k_norm"], num_attention_heads, num_key_value_heads,
                             rms_norm_eps)
    return qkv_BTC

def attention(x_BTD: Tensor, layer: Dict[str, Tensor], cos_PR: Tensor, sin_PR: Tensor, segments: Optional[Tensor],
              keys_B: Optional[Tensor], index: int) -> Tensor:
    qkv_BTC = queries_keys_values(x_BTD, layer)
    y_BTA = attended(qkv_BTC, cos_PR, sin_PR, segments, keys_B, index)
    return dropped(hidden_linear(y_BTA, layer["o_proj"]), keys_B, 3 * index + 1)

def mlp(x_BTD: Tensor, layer: Dict[str, Tensor]) -> Tensor:
    return hidden_mlp(x_BTD, layer["gate_up_proj"], layer["down_proj"])

def after_attention(a_BTD: Tensor, x_BTD: Tensor, layer: Dict[str, Tensor], keys_B: Optional[Tensor],
                    index: int) -> Tuple[Tensor, Tensor]:
    h_BTD, normed_BTD = lm.add_rms_norm(a_BTD, x_BTD, layer["post_attention_layernorm"], rms_norm_eps)
    m_BTD = dropped(mlp(normed_BTD, layer), keys_B, 3 * index + 2)
    return m_BTD, h_BTD

# The block of the paper:
#     a = attention(rms_norm(x))
#     h = x + a
#     m = mlp(rms_norm(h))
#     x = h + m
# Here x comes in, and goes out, as delta + residual: lm.add_rms_norm takes both additions.
def decoder_layer(delta_BTD: Tensor, residual_BTD: Optional[Tensor], layer: Dict[str, Tensor], cos_PR: Tensor,
                  sin_PR: Tensor, segments: Optional[Tensor], keys_B: Optional[Tensor],
                  index: int) -> Tuple[Tensor, Tensor]:
    x_BTD, normed_BTD = lm.add_rms_norm(delta_BTD, residual_BTD, layer["input_layernorm"], rms_norm_eps)
    a_BTD = attention(normed_BTD, layer, cos_PR, sin_PR, segments, keys_B, index)
    return after_attention(a_BTD, x_BTD, layer, keys_B, index)

def embed(ids_BT: Tensor, weights: Dict[str, Tensor]) -> Tensor:
    return lm.embedding(ids_BT, weights["embed_tokens"])

def decoder(ids_BT: Tensor, weights: Dict[str, Tensor], layers: List[Dict[str, Tensor]], cos_PR: Tensor,
            sin_PR: Tensor, segments: Optional[Tensor],
            keys_B: Optional[Tensor]) -> Tuple[Tensor, Optional[Tensor]]:
    delta_BTD = embed(ids_BT, weights)
    residual_BTD: Optional[Tensor] = None
    for i in range(num_hidden_layers):
        delta_BTD, residual_BTD = decoder_layer(delta_BTD, residual_BTD, layers[i], cos_PR, sin_PR, segments, keys_B, i)
    return delta_BTD, residual_BTD

def logits(ids_BT: Tensor, weights: Dict[str, Tensor], layers: List[Dict[str, Tensor]], cos_PR: Tensor,
           sin_PR: Tensor, segments: Optional[Tensor]) -> Tensor:
    delta_BTD, residual_BTD = decoder(ids_BT, weights, layers, cos_PR, sin_PR, segments, None)
    x_BTD, normed_BTD = lm.add_rms_norm(delta_BTD, residual_BTD, weights["norm"], rms_norm_eps)
    return lm.linear(normed_BTD, weights["lm_head"])
)";

// Follows kLlamaLogitsSource in training: the loss, logits with a cache, and logits in two parts.
inline constexpr const char* kLlamaTrainingSource = R"(
def whole_layer(x_BTD: Tensor, layer: Dict[str, Tensor], cos_PR: Tensor, sin_PR: Tensor,
                segments: Optional[Tensor], keys_B: Optional[Tensor], index: int) -> Tensor:
    delta_BTD, residual_BTD = decoder_layer(x_BTD, None, layer, cos_PR, sin_PR, segments, keys_B, index)
    return residual_BTD + delta_BTD

def head_loss(delta_BTD: Tensor, residual_BTD: Optional[Tensor], targets_BT: Tensor, scale: Tensor,
              weights: Dict[str, Tensor]) -> Tensor:
    x_BTD, normed_BTD = lm.add_rms_norm(delta_BTD, residual_BTD, weights["norm"], rms_norm_eps)
    return lm.linear_cross_entropy(normed_BTD.flatten(0, 1), weights["lm_head"], targets_BT.flatten(), scale, z_loss)

def cached_attention(x_BTD: Tensor, layer: Dict[str, Tensor], cos_PR: Tensor, sin_PR: Tensor, keys_BKSE: Tensor,
                     values_BKSE: Tensor, positions_B: Optional[Tensor], mask: Optional[Tensor]) -> Tensor:
    qkv_BTC = queries_keys_values(x_BTD, layer)
    y_BTA = lm.cached_rope_attention(qkv_BTC, cos_PR, sin_PR, num_attention_heads, num_key_value_heads, keys_BKSE,
                                     values_BKSE, positions_B, mask)
    return hidden_linear(y_BTA, layer["o_proj"])

def next_logits(ids_BT: Tensor, weights: Dict[str, Tensor], layers: List[Dict[str, Tensor]], cos_PR: Tensor,
                sin_PR: Tensor, keys: List[Tensor], values: List[Tensor], positions_B: Optional[Tensor],
                mask: Optional[Tensor]) -> Tensor:
    delta_BTD = embed(ids_BT, weights)
    residual_BTD: Optional[Tensor] = None
    for i in range(num_hidden_layers):
        x_BTD, normed_BTD = lm.add_rms_norm(delta_BTD, residual_BTD, layers[i]["input_layernorm"], rms_norm_eps)
        a_BTD = cached_attention(normed_BTD, layers[i], cos_PR, sin_PR, keys[i], values[i], positions_B, mask)
        delta_BTD, residual_BTD = after_attention(a_BTD, x_BTD, layers[i], None, i)
    h_BTD, last_BTD = lm.add_rms_norm(delta_BTD, residual_BTD, weights["norm"], rms_norm_eps)
    return lm.linear(last_BTD[:, -1], weights["lm_head"])

def loss(ids_BT: Tensor, targets_BT: Tensor, scale: Tensor, weights: Dict[str, Tensor], layers: List[Dict[str, Tensor]],
         cos_PR: Tensor, sin_PR: Tensor, segments: Optional[Tensor], keys_B: Optional[Tensor]) -> Tensor:
    delta_BTD, residual_BTD = decoder(ids_BT, weights, layers, cos_PR, sin_PR, segments, keys_B)
    return head_loss(delta_BTD, residual_BTD, targets_BT, scale, weights)

# Logits in two parts, for those who need them at a few positions: head(states) are all logits.
def states(ids_BT: Tensor, weights: Dict[str, Tensor], layers: List[Dict[str, Tensor]], cos_PR: Tensor,
           sin_PR: Tensor, segments: Optional[Tensor]) -> Tensor:
    delta_BTD, residual_BTD = decoder(ids_BT, weights, layers, cos_PR, sin_PR, segments, None)
    x_BTD, normed_BTD = lm.add_rms_norm(delta_BTD, residual_BTD, weights["norm"], rms_norm_eps)
    return normed_BTD

def target_losses(ids_BT: Tensor, targets_BT: Tensor, weights: Dict[str, Tensor], layers: List[Dict[str, Tensor]],
                  cos_PR: Tensor, sin_PR: Tensor, segments: Optional[Tensor]) -> Tensor:
    x_BTD = states(ids_BT, weights, layers, cos_PR, sin_PR, segments)
    return lm.linear_cross_entropies(x_BTD.flatten(0, 1), weights["lm_head"], targets_BT.flatten())

# What target_losses() does after the last layer, where layers are called one by one.
def last_losses(x_BTD: Tensor, targets_BT: Tensor, weights: Dict[str, Tensor]) -> Tensor:
    sum_BTD, normed_BTD = lm.add_rms_norm(x_BTD, None, weights["norm"], rms_norm_eps)
    return lm.linear_cross_entropies(normed_BTD.flatten(0, 1), weights["lm_head"], targets_BT.flatten())

def head(x_ND: Tensor, weights: Dict[str, Tensor]) -> Tensor:
    return lm.linear(x_ND, weights["lm_head"])
)";

}  // namespace lmtrain
