#include "train/memory_plan.h"

#include "ops/operators.h"
#include "ops/torch_headers.h"
#include "optim/optimizer.h"
#include "train/resolve.h"

namespace lmtrain {
namespace {

// What the backward of one position needs of a layer (model/llama_source.h), in elements: the
// inputs of both norms and of the four matrices, Q, K, V, and gate and up.
int64_t saved_by_layer(const ModelConfig& model) {
  const int64_t d = model.hidden_size;
  const int64_t f = model.intermediate_size;
  const int64_t q = model.num_attention_heads * model.resolved_head_dim();
  const int64_t kv = model.num_key_value_heads * model.resolved_head_dim();
  const int64_t attention = 2 * d + (q + 2 * kv) + q;
  const int64_t mlp = 2 * d + 3 * f;
  return attention + mlp;
}

}  // namespace

MemoryPlan plan_memory(const Config& config, at::ScalarType working_dtype,
                       int64_t micro_positions) {
  const ModelConfig& model = config.model;
  // On the device "meta" tensors have shapes and no memory, so the rule itself says what it keeps.
  Parameters parameters(ParameterLayout(model, *model.vocab_size), working_dtype, at::kMeta);
  const auto optimizer = make_optimizer(config.optimizer, parameters);
  const auto element = static_cast<int64_t>(c10::elementSize(working_dtype));

  MemoryPlan plan;
  plan.weights = static_cast<int64_t>(parameters.master().nbytes());
  plan.micro_gradient = static_cast<int64_t>(parameters.working().nbytes());
  if (working_dtype != at::kFloat) plan.working_weights = plan.micro_gradient;
  plan.gradient = plan.weights;
  for (const OptimizerBuffer& buffer : optimizer->buffers())
    plan.optimizer += static_cast<int64_t>(buffer.values.nbytes());
  const int64_t last_norm = 2 * model.hidden_size;
  // With activation checkpointing: the input of every layer, and all of the one that is recomputed.
  const int64_t layers = model.activation_checkpointing
                             ? model.num_hidden_layers * model.hidden_size + saved_by_layer(model)
                             : model.num_hidden_layers * saved_by_layer(model);
  plan.activations = micro_positions * element * (layers + last_norm);
  plan.logits = element * *model.vocab_size *
                std::min(micro_positions, linear_cross_entropy_chunk(
                                              device_of(config), working_dtype, *model.vocab_size));
  if (config.checkpoint.async) plan.snapshot = plan.weights + plan.optimizer;
  return plan;
}

}  // namespace lmtrain
