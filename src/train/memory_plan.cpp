#include "train/memory_plan.h"

#include <bit>

#include "device/torch_headers.h"
#include "ops/operators.h"
#include "optim/optimizer.h"
#include "train/resolve.h"

namespace lmtrain {
namespace {

// Bytes that the backward of one position needs of a layer (model/llama_source.h): the inputs
// of both norms, Q, K, V, the output of attention, gate and up; and the inputs of the four
// matrices, of which one is that output and one is computed again, unless they are kept in fp8.
int64_t saved_by_layer(const ModelConfig& model, const Precision& precision,
                       const at::Device& device) {
  const int64_t d = model.hidden_size;
  const int64_t f = model.intermediate_size;
  const int64_t q = model.num_attention_heads * model.resolved_head_dim();
  // In fp32 a GPU's attention has keys and values once for each query head (ops/attention.cpp).
  const bool repeats = device.is_cuda() && precision.dtype == at::kFloat;
  const int64_t kv = repeats ? q : model.num_key_value_heads * model.resolved_head_dim();
  const auto element = static_cast<int64_t>(c10::elementSize(precision.dtype));
  const int64_t kept = element * (2 * d + (q + 2 * kv) + q + 2 * f);
  return precision.fp8 ? kept + (d + q + d + f) : kept + element * (2 * d);
}

}  // namespace

MemoryPlan plan_memory(const Config& config, const Precision& precision, int64_t micro_positions) {
  const ModelConfig& model = config.model;
  // On the device "meta" tensors have shapes and no memory, so the rule itself says what it keeps.
  Parameters parameters(ParameterLayout(model, *model.vocab_size), precision.dtype, at::kMeta);
  const auto optimizer = make_optimizer(config.optimizer, parameters);
  const auto element = static_cast<int64_t>(c10::elementSize(precision.dtype));

  MemoryPlan plan;
  plan.weights = static_cast<int64_t>(parameters.master().nbytes());
  plan.micro_gradient = static_cast<int64_t>(parameters.working().nbytes());
  if (precision.dtype != at::kFloat) plan.working_weights = plan.micro_gradient;
  plan.gradient = plan.weights;
  // Sums of parts that wait for their neighbours (train/step_parts.h), of one process alone.
  if (config.parallel.sum == ParallelSum::kExact)
    plan.gradient *= std::bit_width(static_cast<uint64_t>(config.parallel.parts));
  for (const OptimizerBuffer& buffer : optimizer->buffers())
    plan.optimizer += static_cast<int64_t>(buffer.values.nbytes());
  const int64_t of_layer = saved_by_layer(model, precision, device_of(config));
  const int64_t input = element * model.hidden_size;
  // With activation checkpointing: the input of every layer, and all of the one that is recomputed.
  const int64_t layers = model.activation_checkpointing ? model.num_hidden_layers * input + of_layer
                                                        : model.num_hidden_layers * of_layer;
  plan.activations = micro_positions * (layers + 2 * input);  // and what is after the last
  plan.logits =
      element * *model.vocab_size *
      std::min(micro_positions,
               linear_cross_entropy_chunk(device_of(config), precision.dtype, *model.vocab_size));
  if (config.checkpoint.async) plan.snapshot = plan.weights + plan.optimizer;
  return plan;
}

}  // namespace lmtrain
