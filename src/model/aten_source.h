// The operators that the Llama's source calls as `lm` (ops/operators.h), in TorchScript and ATen's
// operators alone: what an exported module computes with. Each function is the composition
// `*_reference` of the operator that has its name, with the same casts.
//
// model/llama_source.h explains the suffixes.
#pragma once

namespace lmtrain {

inline constexpr const char* kAtenSource = R"(
def add_rms_norm(x: Tensor, residual: Optional[Tensor], weight: Tensor, eps: float) -> Tuple[Tensor, Tensor]:
    h = x
    if residual is not None:
        h = x + residual
    wide = h.float()
    normed = wide * torch.rsqrt(torch.mean(wide * wide, [-1], True) + eps) * weight.float()
    return h, normed.type_as(x)

def qk_norm(qkv_BTC: Tensor, q_weight: Tensor, k_weight: Tensor, num_heads: int, num_kv_heads: int,
            eps: float) -> Tensor:
    heads_BTHE = qkv_BTC.unflatten(-1, [num_heads + 2 * num_kv_heads, -1])
    keys = num_heads + num_kv_heads
    q_BTHE = add_rms_norm(heads_BTHE[:, :, :num_heads], None, q_weight, eps)[1]
    k_BTKE = add_rms_norm(heads_BTHE[:, :, num_heads:keys], None, k_weight, eps)[1]
    return torch.cat([q_BTHE, k_BTKE, heads_BTHE[:, :, keys:]], 2).flatten(2)

def add_bias(x: Tensor, bias: Tensor) -> Tensor:
    return x + bias

def linear(x: Tensor, weight: Tensor) -> Tensor:
    return torch.linear(x, weight)

def swiglu_linear(gate_up: Tensor, weight: Tensor) -> Tensor:
    width = gate_up.size(-1) // 2
    return torch.linear(torch.silu(gate_up[..., :width]) * gate_up[..., width:], weight)

def embedding(ids_BT: Tensor, weight_VD: Tensor) -> Tensor:
    return torch.embedding(weight_VD, ids_BT)

def rotated(x_BHTE: Tensor, cos_TR: Tensor, sin_TR: Tensor) -> Tensor:
    half = x_BHTE.size(-1) // 2
    first_BHTR = x_BHTE[..., :half].float()
    second_BHTR = x_BHTE[..., half:].float()
    return torch.cat([first_BHTR * cos_TR - second_BHTR * sin_TR, second_BHTR * cos_TR + first_BHTR * sin_TR],
                     -1).type_as(x_BHTE)

def repeated(x_BKTE: Tensor, times: int) -> Tensor:
    return x_BKTE.unsqueeze(2).expand([-1, -1, times, -1, -1]).flatten(1, 2)

def rope_attention(qkv_BTC: Tensor, cos_TR: Tensor, sin_TR: Tensor, num_heads: int, num_kv_heads: int,
                   segments: Optional[Tensor]) -> Tensor:
    assert segments is None, "the module takes rows of one segment"
    heads_BHTE = qkv_BTC.unflatten(-1, [num_heads + 2 * num_kv_heads, -1]).transpose(1, 2)
    q_BHTE = rotated(heads_BHTE[:, :num_heads], cos_TR, sin_TR)
    k_BKTE = rotated(heads_BHTE[:, num_heads:num_heads + num_kv_heads], cos_TR, sin_TR)
    v_BKTE = heads_BHTE[:, num_heads + num_kv_heads:]
    times = num_heads // num_kv_heads
    y_BHTE = torch.scaled_dot_product_attention(q_BHTE, repeated(k_BKTE, times), repeated(v_BKTE, times), None, 0.0, True)
    return y_BHTE.transpose(1, 2).flatten(2)
)";

}  // namespace lmtrain
