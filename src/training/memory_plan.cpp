#include "training/memory_plan.h"

#include <algorithm>
#include <bit>
#include <set>

#include "base/machine.h"
#include "device/slotted_memory.h"
#include "device/torch_headers.h"
#include "distributed/ownership.h"
#include "distributed/tree_sum.h"
#include "model/module_weights.h"
#include "model/round_weights.h"
#include "ops/operators.h"
#include "optim/make_optimizer.h"

namespace lmtrain {
namespace {

// Returns the bytes that the backward of one position needs of a layer (model/llama_source.h): the
// inputs of both norms; Q, K, V, with QK-norm also before it; the output of attention; gate and up;
// the outputs of both norms, which are inputs of matrices. In fp8 it keeps fp8 copies of the inputs
// of all four matrices instead of the norms' outputs.
int64_t saved_by_layer(const ModelConfig& model, int64_t max_length, const Precision& precision,
                       const at::Device& device) {
  const int64_t d = model.hidden_size;
  const int64_t f = model.intermediate_size;
  const int64_t q = model.num_attention_heads * model.resolved_head_dim();
  // In fp32 a GPU's attention copies keys and values once for each query head (ops/attention.cpp).
  const bool repeats = device.is_cuda() && precision.dtype == at::kFloat;
  const int64_t own_kv = model.num_key_value_heads * model.resolved_head_dim();
  const int64_t kv = repeats && own_kv < q ? q + own_kv : own_kv;
  const auto element = static_cast<int64_t>(c10::elementSize(precision.dtype));
  const int64_t before_norm = model.has_qk_norm() ? q + 2 * own_kv : 0;
  // Dropout needs rotated queries and keys, keys and values once for each query head, and three
  // matrices: scores, their softmax, and the softmax after dropout.
  const int64_t for_dropout =
      model.dropout > 0 ? 4 * q + 3 * model.num_attention_heads * max_length : 0;
  const int64_t kept = element * (2 * d + before_norm + (q + 2 * kv) + q + 2 * f + for_dropout);
  return precision.fp8 ? kept + (d + q + d + f) : kept + element * (2 * d);
}

struct OptimizerSizes {
  int64_t state = 0;
  int64_t scratch = 0;  // of an update
};
// On the device "meta" tensors have shapes and no memory, so the rule itself says what it keeps.
OptimizerSizes optimizer_sizes(const OptimizerConfig& config, Parameters& on_meta,
                               const ParameterFilter& takes) {
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(config, on_meta, takes);
  OptimizerSizes sizes = {0, optimizer->scratch_bytes()};
  for (const OptimizerBuffer& buffer : optimizer->buffers())
    sizes.state += static_cast<int64_t>(buffer.values.nbytes());
  return sizes;
}

OptimizerSizes largest_share(const OptimizerConfig& config, Parameters& on_meta,
                             int num_processes) {
  const std::vector<std::vector<int64_t>> chunks =
      cut_chunks(on_meta.layout(), config, num_processes);
  // There may be more processes than tensors: only some of them own one.
  std::set<size_t> owners;
  for (const ParameterSpec& spec : on_meta.layout().parameters()) {
    for (const std::vector<int64_t>& cuts : chunks) {
      const auto next = std::upper_bound(cuts.begin(), cuts.end(), spec.offset);
      if (next != cuts.begin() && next != cuts.end())
        owners.insert(static_cast<size_t>(next - cuts.begin()) - 1);
    }
  }
  OptimizerSizes most;
  for (const size_t owner : owners) {
    const auto takes = [&](const ParameterSpec& spec) {
      return std::any_of(chunks.begin(), chunks.end(), [&](const std::vector<int64_t>& cuts) {
        return spec.offset >= cuts[owner] && spec.offset < cuts[owner + 1];
      });
    };
    const OptimizerSizes sizes = optimizer_sizes(config, on_meta, takes);
    most.state = std::max(most.state, sizes.state);
    most.scratch = std::max(most.scratch, sizes.scratch);
  }
  return most;
}

// Elements of weights and gradient that a process keeps where these are divided.
struct DividedSizes {
  int64_t share = 0;    // of the owner that has most
  int64_t modules = 0;  // of others: the module that is used and the one that is gathered meanwhile
  int64_t largest = 0;
};

DividedSizes divided_sizes(const OptimizerConfig& config, const ParameterLayout& layout,
                           int num_processes) {
  DividedSizes sizes;
  std::vector<int64_t> shares(static_cast<size_t>(num_processes));
  for (const std::vector<int64_t>& cuts : cut_chunks(layout, config, num_processes))
    for (size_t i = 0; i < shares.size(); ++i) shares[i] += cuts[i + 1] - cuts[i];
  sizes.share = *std::max_element(shares.begin(), shares.end());
  const std::vector<ElementRange> modules = module_ranges(layout);
  for (size_t i = 0; i < modules.size(); ++i) {
    sizes.largest = std::max(sizes.largest, modules[i].size);
    // An untied head comes after the last layer, and otherwise the embedding does.
    sizes.modules =
        std::max(sizes.modules, modules[i].size + modules[i + 1 < modules.size() ? i + 1 : 0].size);
  }
  return sizes;
}

// Returns the pages of a tensor of the layout on a GPU, of which a process keeps `kept`.
SlottedPages gpu_pages(const ParameterLayout& layout, const std::vector<ElementRange>& kept,
                       int64_t element) {
  return slotted_pages(layout.flat_size(), element, kGpuPageBytes, module_slots(layout, kept));
}

// Sets weights, working_weights and gradient on a GPU, of the process with most.
void plan_slots(const Config& config, const Precision& precision, int num_processes,
                const ParameterLayout& layout, MemoryPlan& plan) {
  const bool has_working = precision.dtype != at::kFloat;
  const auto element = static_cast<int64_t>(c10::elementSize(precision.dtype));
  const std::vector<std::vector<int64_t>> chunks =
      cut_chunks(layout, config.optimizer, num_processes);
  int64_t most = 0;
  for (size_t owner = 0; owner < static_cast<size_t>(num_processes); ++owner) {
    std::vector<ElementRange> kept;
    for (const std::vector<int64_t>& cuts : chunks)
      kept.push_back({cuts[owner], cuts[owner + 1] - cuts[owner]});
    const SlottedPages fp32 = gpu_pages(layout, kept, 4);
    const SlottedPages working = gpu_pages(layout, kept, element);
    // The masters share the slots of the gradient (training/engine.cpp).
    const int64_t weights = fp32.own_bytes() + (has_working ? 0 : fp32.slot_bytes());
    const int64_t of_working = has_working ? working.own_bytes() + working.slot_bytes() : 0;
    const int64_t gradient = fp32.own_bytes() + fp32.slot_bytes();
    if (weights + of_working + gradient <= most) continue;
    most = weights + of_working + gradient;
    plan.weights = weights;
    plan.working_weights = of_working;
    plan.gradient = gradient;
  }
}

// Sets weights, working_weights and gradient on a CPU, of the process with most.
void plan_pages(const Precision& precision, const DividedSizes& sizes, MemoryPlan& plan) {
  const auto element = static_cast<int64_t>(c10::elementSize(precision.dtype));
  const bool has_masters = precision.dtype != at::kFloat;
  plan.weights = 4 * (has_masters ? sizes.share : sizes.share + sizes.modules);
  if (has_masters) plan.working_weights = element * (sizes.share + sizes.modules);
  // The sum of the module that is computed, and the one that is exchanged meanwhile.
  plan.gradient = 4 * (sizes.share + 2 * sizes.largest);
}

// Changes the plan of a run for one of `num_processes` that divide the weights.
void divide_weights(const Config& config, const Precision& precision, const at::Device& device,
                    int64_t micro_positions, int num_processes, const ParameterLayout& layout,
                    MemoryPlan& plan) {
  const auto element = static_cast<int64_t>(c10::elementSize(precision.dtype));
  const DividedSizes sizes = divided_sizes(config.optimizer, layout, num_processes);
  const std::vector<ElementRange> modules = module_ranges(layout);
  if (device.is_cpu()) {
    plan_pages(precision, sizes, plan);
  } else {
    plan_slots(config, precision, num_processes, layout, plan);
  }
  // Sums of parts that wait.
  const bool is_exact = config.parallel.sum == ParallelSum::kExact;
  if (is_exact) {
    const auto parts = static_cast<uint64_t>(config.parallel.parts / num_processes);
    plan.gradient += 4 * (std::bit_width(parts) - 1) * sizes.largest;
  }
  // A message of a tree. NCCL's own sum has its buffers outside of the plan.
  if (device.is_cpu()) {
    plan.gradient += 4 * std::min(sizes.largest, kHostMessage);
  } else if (is_exact) {
    plan.gradient += 4 * std::min(sizes.largest, kDeviceMessage);
  }
  // On a GPU the products add the gradients of the layers' matrices, except in fp8.
  const bool by_products = !device.is_cpu() && !precision.fp8;
  const bool is_tied = config.model.tie_word_embeddings;
  const int64_t last = is_tied ? 0 : modules.back().size;
  plan.micro_gradient =
      element * (by_products ? std::max(modules.front().size, last) : sizes.largest);
  // The inputs of the layers are kept of all positions of a step.
  const int64_t share = (config.batch.tokens + num_processes - 1) / num_processes;
  const int64_t more = std::max<int64_t>(0, share - micro_positions);
  plan.activations += more * element * config.model.hidden_size * config.model.num_hidden_layers;
  if (is_tied && micro_positions > 0) {
    const int64_t micro_batches = (share + micro_positions - 1) / micro_positions;
    plan.micro_gradient += micro_batches * element * modules.front().size;
  }
}

// Returns at least the bytes of copies for a checkpoint in a process that writes so many bytes of
// `masters` and of the `optimizer`.
int64_t snapshot_bytes(const Config& config, const at::Device& device, int64_t masters,
                       int64_t optimizer) {
  const int64_t stored = stored_weight_bytes(masters, config.checkpoint.dtype);
  if (config.checkpoint.async || !device.is_cpu()) return stored + optimizer;
  return stored - masters;  // only the rounded weights are copies
}

}  // namespace

int64_t micro_gradient_bytes(const Parameters& parameters, const Precision& precision,
                             const at::Device& device) {
  const auto element = static_cast<int64_t>(c10::elementSize(precision.dtype));
  auto bytes = static_cast<int64_t>(parameters.working().nbytes());
  if (device.is_cpu() || precision.fp8) return bytes;
  for (const WorkingSpec& spec : parameters.layout().working()) {
    if (spec.layer >= 0 && spec.shape.size() == 2) bytes -= element * spec.shape[0] * spec.shape[1];
  }
  return bytes;
}

int64_t swiglu_value_bytes(const Config& config, const Precision& precision,
                           int64_t micro_positions) {
  if (precision.fp8) return 0;
  const ModelConfig& model = config.model;
  const auto element = static_cast<int64_t>(c10::elementSize(precision.dtype));
  const int64_t layers = model.activation_checkpointing ? 1 : model.num_hidden_layers;
  return micro_positions * layers * element * model.intermediate_size;
}

int64_t program_bytes() {
  constexpr int64_t kWoken = int64_t{32} << 20;  // 30 MiB were measured
  return static_cast<int64_t>(resident_bytes()) + kWoken;
}

MemoryPlan plan_memory(const Config& config, const Precision& precision, int64_t micro_positions,
                       int num_processes, std::optional<at::Device> other_device) {
  const ModelConfig& model = config.model;
  const at::Device device = other_device ? *other_device : device_of(config);
  Parameters parameters(ParameterLayout(model, *model.vocab_size), precision.dtype, at::kMeta);
  const auto element = static_cast<int64_t>(c10::elementSize(precision.dtype));

  MemoryPlan plan;
  plan.weights = static_cast<int64_t>(parameters.master().nbytes());
  plan.micro_gradient = micro_gradient_bytes(parameters, precision, device);
  if (precision.dtype != at::kFloat)
    plan.working_weights = static_cast<int64_t>(parameters.working().nbytes());
  plan.gradient = plan.weights;
  // Sums of parts that wait for their neighbours (training/step.h), of one process alone.
  if (config.parallel.sum == ParallelSum::kExact)
    plan.gradient *= std::bit_width(static_cast<uint64_t>(config.parallel.parts));
  int64_t written = plan.weights;  // of the masters, into a checkpoint
  OptimizerSizes sizes;
  if (num_processes > 1 && config.parallel.shard != ParallelShard::kNone) {
    sizes = largest_share(config.optimizer, parameters, num_processes);
    written = 4 * divided_sizes(config.optimizer, parameters.layout(), num_processes).share;
  } else {
    sizes = optimizer_sizes(config.optimizer, parameters, every_parameter);
  }
  plan.optimizer = sizes.state;
  const int64_t of_layer = saved_by_layer(model, config.sequence.max_length, precision, device);
  const int64_t input = element * model.hidden_size;
  // With activation checkpointing: the input of every layer, and all of the one that is recomputed.
  const int64_t layers = model.activation_checkpointing ? model.num_hidden_layers * input + of_layer
                                                        : model.num_hidden_layers * of_layer;
  plan.activations = micro_positions * (layers + 2 * input);  // and what is after the last
  plan.logits = element * *model.vocab_size *
                std::min(micro_positions,
                         linear_cross_entropy_chunk(device, precision.dtype, *model.vocab_size));
  // Gradients of gate and up, SwiGLU's value, and two of the layer's inputs.
  if (device.is_cpu()) {
    plan.temporaries =
        micro_positions * element * (3 * model.intermediate_size + 2 * model.hidden_size);
    plan.update = sizes.scratch;
  }
  plan.snapshot = snapshot_bytes(config, device, written, plan.optimizer);
  if (num_processes > 1 && config.parallel.shard == ParallelShard::kParameters) {
    plan.reading = plan.weights;
    divide_weights(config, precision, device, micro_positions, num_processes, parameters.layout(),
                   plan);
  }
  return plan;
}

}  // namespace lmtrain
