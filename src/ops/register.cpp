// Registers the operators under `lm`, with autograd inside: the model's TorchScript source calls
// lm.linear(x, weight).
#include <torch/library.h>

#include "device/torch_headers.h"
#include "ops/operators.h"

TORCH_LIBRARY(lm, library) {
  library.def(
      "add_rms_norm(Tensor x, Tensor? residual, Tensor weight, float eps) -> (Tensor, Tensor)");
  library.def(
      "qk_norm(Tensor qkv, Tensor q_weight, Tensor k_weight, int num_heads, int num_kv_heads, "
      "float eps) -> Tensor");
  library.def("add_bias(Tensor x, Tensor bias) -> Tensor");
  library.def("linear(Tensor x, Tensor weight) -> Tensor");
  library.def("fp8_linear(Tensor x, Tensor weight) -> Tensor");
  // On a GPU it overwrites qkv (qkv_rope_in_place). The schema does not say so, since autograd
  // would then need a copy: no source may read qkv afterwards.
  library.def(
      "rope_attention(Tensor qkv, Tensor cos, Tensor sin, int num_heads, int num_kv_heads, Tensor? "
      "segments) -> Tensor");
  library.def(
      "cached_rope_attention(Tensor qkv, Tensor cos, Tensor sin, int num_heads, int num_kv_heads, "
      "Tensor(a!) keys, Tensor(b!) values, Tensor? positions, Tensor? mask) -> Tensor");
  library.def("dropout(Tensor x, Tensor keys, int site, float p) -> Tensor");
  library.def(
      "rope_attention_dropout(Tensor qkv, Tensor cos, Tensor sin, int num_heads, int num_kv_heads, "
      "Tensor? segments, Tensor keys, int site, float p) -> Tensor");
  library.def("mlp(Tensor x, Tensor gate_up_weight, Tensor down_weight) -> Tensor");
  library.def("fp8_mlp(Tensor x, Tensor gate_up_weight, Tensor down_weight) -> Tensor");
  library.def(
      "linear_cross_entropy(Tensor x, Tensor weight, Tensor targets, Tensor scale, float z_loss, "
      "int? chunk=None) -> Tensor");
  library.def("linear_cross_entropies(Tensor x, Tensor weight, Tensor targets) -> Tensor");
  library.def("embedding(Tensor ids, Tensor weight) -> Tensor");
}

// CompositeImplicitAutograd: each function chooses its path and records its own gradient.
TORCH_LIBRARY_IMPL(lm, CompositeImplicitAutograd, library) {
  library.impl("add_rms_norm", &lmtrain::add_rms_norm);
  library.impl("qk_norm", &lmtrain::qk_norm);
  library.impl("add_bias", &lmtrain::add_bias);
  library.impl("linear", &lmtrain::linear);
  library.impl("fp8_linear", &lmtrain::fp8_linear);
  library.impl("rope_attention", &lmtrain::rope_attention);
  library.impl("cached_rope_attention", &lmtrain::cached_rope_attention);
  library.impl("dropout", &lmtrain::dropout);
  library.impl("rope_attention_dropout", &lmtrain::rope_attention_dropout);
  library.impl("mlp", &lmtrain::mlp);
  library.impl("fp8_mlp", &lmtrain::fp8_mlp);
  library.impl("linear_cross_entropy", &lmtrain::linear_cross_entropy);
  library.impl("linear_cross_entropies", &lmtrain::linear_cross_entropies);
  library.impl("embedding", &lmtrain::embedding);
}

const char* lmtrain::operators_namespace() { return "lm"; }
