#include "model/llama.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/passes/common_subexpression_elimination.h>
#include <torch/csrc/jit/passes/constant_pooling.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/loop_unrolling.h>
#include <torch/csrc/jit/passes/peephole.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "device/device.h"
#include "device/spin_control.h"
#include "device/torch_headers.h"
#include "model/activation_checkpointing.h"
#include "model/llama_source.h"
#include "model/rope.h"
#include "model/source_resolver.h"
#include "ops/accumulate.h"
#include "ops/flash_attention.h"
#include "ops/operators.h"
#include "ops/weight_gradient.h"

namespace lmtrain {
namespace {

// The names of the source: `torch`, `lm`, the operators that are `hidden_linear` and `hidden_mlp`,
// and the configuration.
std::shared_ptr<torch::jit::Resolver> names_of(const ModelConfig& model, double z_loss, bool fp8) {
  const auto builtin = [](const char* name) {
    return std::make_shared<torch::jit::BuiltinFunction>(c10::Symbol::fromQualString(name),
                                                         std::nullopt);
  };
  SourceConstants constants = llama_constants(model);
  constants.emplace("z_loss", z_loss);
  return std::make_shared<SourceResolver>(
      SourceNames{{"torch", std::make_shared<torch::jit::BuiltinModule>("aten")},
                  {"lm", std::make_shared<torch::jit::BuiltinModule>(operators_namespace())},
                  {"hidden_linear", builtin(fp8 ? "lm::fp8_linear" : "lm::linear")},
                  {"hidden_mlp", builtin(fp8 ? "lm::fp8_mlp" : "lm::mlp")}},
      std::move(constants));
}

// Everything that can be settled before the first call, once.
void optimize(std::shared_ptr<torch::jit::Graph> graph) {
  torch::jit::Inline(*graph);
  torch::jit::ConstantPropagation(graph);
  torch::jit::UnrollConstantLoops(graph);
  torch::jit::ConstantPropagation(graph);
  torch::jit::PeepholeOptimize(graph);
  torch::jit::EliminateCommonSubexpression(graph);
  torch::jit::ConstantPooling(graph);
  torch::jit::EliminateDeadCode(graph);
}

}  // namespace

MicroBatch micro_batch(const at::Tensor& ids, const at::Tensor& targets, double scale,
                       const std::vector<int32_t>& segments, const at::Device& device,
                       const std::vector<int64_t>& dropout_keys) {
  MicroBatch micro{ids, targets, host_buffer({}, at::kDouble, device), {}, {}, {}};
  *micro.scale.data_ptr<double>() = scale;
  if (!dropout_keys.empty()) {
    micro.dropout_keys =
        host_buffer({static_cast<int64_t>(dropout_keys.size())}, at::kLong, device);
    std::ranges::copy(dropout_keys, micro.dropout_keys.data_ptr<int64_t>());
  }
  if (segments.empty()) return micro;
  const int64_t num_positions = ids.numel();
  const int64_t length = ids.size(1);
  // FlashAttention on a GPU takes no more segments than a grid has rows of blocks.
  constexpr size_t kMostOnGpu = 65535;
  const size_t most = std::max(kMostOnGpu, segments.size());
  const auto num_bounds = static_cast<int64_t>(std::min(std::bit_ceil(segments.size()), most)) + 1;
  micro.bounds = host_buffer({num_bounds}, at::kInt, device);
  micro.positions = host_buffer({num_positions}, at::kLong, device);
  int32_t* const bounds = micro.bounds.data_ptr<int32_t>();
  std::fill(std::copy(segments.begin(), segments.end(), bounds), bounds + num_bounds,
            static_cast<int32_t>(num_positions));
  int64_t* position = micro.positions.data_ptr<int64_t>();
  for (size_t i = 0; i < segments.size(); ++i) {
    const int64_t begin = segments[i];
    const int64_t end = i + 1 < segments.size() ? segments[i + 1] : num_positions;
    if ((i == 0 && begin != 0) || end <= begin || end > (begin / length + 1) * length) {
      throw Error(ErrorKind::kInternal,
                  str("segment ", i, " of ", segments.size(), " covers [", begin, ", ", end,
                      ") in rows of ", length, ": out of order, or over the end of a row"));
    }
    std::iota(position + begin, position + end, int64_t{0});
  }
  return micro;
}

MicroBatch MicroBatch::to(const at::Device& device) const {
  const auto send = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.to(device, /*non_blocking=*/true) : tensor;
  };
  return {send(ids), send(targets), send(scale), send(bounds), send(positions), send(dropout_keys)};
}

struct Llama::Compiled {
  torch::jit::CompilationUnit unit;
};

Llama::Llama(const ModelConfig& model, Parameters& parameters, int64_t max_length,
             CompileMode compile, double z_loss, bool fp8, uint64_t dropout_seed)
    : parameters_(parameters),
      max_length_(max_length),
      cache_sizes_{model.num_hidden_layers, model.num_key_value_heads, model.resolved_head_dim(),
                   max_length},
      compiled_(std::make_unique<Compiled>()),
      dropout_(model.dropout),
      dropout_seed_(dropout_seed),
      activation_checkpointing_(model.activation_checkpointing),
      sums_by_products_(device().is_cuda()) {
  compiled_->unit.define(std::nullopt,
                         str(kDropoutSource, kLlamaLogitsSource, kLlamaTrainingSource),
                         names_of(model, z_loss, fp8), nullptr);
  if (compile != CompileMode::kEager) {
    for (const char* name : {"logits", "next_logits", "states", "head", "loss", "target_losses",
                             "embed", "whole_layer", "head_loss", "last_losses"}) {
      optimize(torch::jit::toGraphFunction(compiled_->unit.get_function(c10::QualifiedName(name)))
                   .graph());
    }
  }

  c10::Dict<std::string, at::Tensor> weights;
  std::vector<c10::Dict<std::string, at::Tensor>> layers(
      static_cast<size_t>(model.num_hidden_layers));
  layer_leaves_.resize(layers.size());
  std::map<int64_t, size_t> leaf_at;  // by offset: a tied head is the embedding's own leaf
  for (const WorkingSpec& spec : parameters.layout().working()) {
    const auto [found, is_new] = leaf_at.emplace(spec.offset, leaves_.size());
    at::Tensor leaf;
    if (!is_new) {
      leaf = leaves_[found->second];
    } else {
      leaf = parameters.working()
                 .narrow(0, spec.offset, spec.numel())
                 .view(spec.shape)
                 .detach()
                 .set_requires_grad(true);
      leaves_.push_back(leaf);
      offsets_.push_back(spec.offset);
    }
    (spec.layer < 0 ? weights : layers[static_cast<size_t>(spec.layer)]).insert(spec.key, leaf);
    if (spec.layer >= 0) layer_leaves_[static_cast<size_t>(spec.layer)].push_back(found->second);
    if (spec.key == "embed_tokens") embed_leaf_ = found->second;
    if (spec.key == "lm_head") head_leaf_ = found->second;
    if (spec.key == "norm") norm_leaf_ = found->second;
  }
  head_module_ = head_leaf_ == embed_leaf_ ? 0 : 1 + layers.size();
  weights_ = weights;
  layers_ = c10::List<c10::Dict<std::string, at::Tensor>>(layers);
  std::tie(cos_, sin_) = rope_tables(model, max_length, device());
}

Llama::~Llama() = default;

std::vector<c10::IValue> Llama::attention_arguments(const MicroBatch& micro) {
  const int64_t length = micro.ids.size(1);
  if (length > max_length_) {
    throw Error(ErrorKind::kInternal,
                str("a row of ", length, " positions in a model of ", max_length_));
  }
  if (!micro.bounds.defined())
    return {cos_.narrow(0, 0, length), sin_.narrow(0, 0, length), c10::IValue()};
  return {cos_.index_select(0, micro.positions), sin_.index_select(0, micro.positions),
          micro.bounds};
}

c10::IValue Llama::dropout_keys(const MicroBatch& micro) {
  return micro.dropout_keys.defined() ? c10::IValue(micro.dropout_keys) : c10::IValue();
}

at::Tensor Llama::call(const char* function, std::vector<c10::IValue> arguments) const {
  if (device().is_cpu()) adjust_spinning();
  const torch::jit::GraphOptimizerEnabledGuard unspecialised(false);
  return compiled_->unit.get_function(c10::QualifiedName(function))(std::move(arguments))
      .toTensor();
}

at::Tensor Llama::checkpointed_loss(const MicroBatch& micro) {
  const std::vector<c10::IValue> attention = attention_arguments(micro);
  at::Tensor x = call("embed", {micro.ids, weights_});
  const c10::IValue keys = dropout_keys(micro);
  int64_t index = 0;
  for (const c10::IValue& weights : layers_.toListRef()) {
    std::vector<at::Tensor> leaves;
    for (const auto& entry : weights.toGenericDict()) leaves.push_back(entry.value().toTensor());
    const LayerFunction layer = [this, weights, attention, keys, index](const at::Tensor& input) {
      return call("whole_layer",
                  {input, weights, attention[0], attention[1], attention[2], keys, index});
    };
    ++index;
    x = checkpointed(layer, x, leaves);
  }
  return call("head_loss", {x, c10::IValue(), micro.targets, micro.scale, weights_});
}

at::Tensor Llama::logits(const at::Tensor& ids) {
  const at::NoGradGuard no_grad;
  const WithoutCudnnAttention no_plans;
  const std::vector<c10::IValue> attention = attention_arguments({ids, {}, {}, {}, {}, {}});
  return call("logits", {ids, weights_, layers_, attention[0], attention[1], attention[2]});
}

KeyValueCache Llama::new_cache(int64_t rows) const {
  return {cache_sizes_, rows, parameters_.working().options().requires_grad(false)};
}

at::Tensor Llama::begin_row(const at::Tensor& ids, KeyValueCache& cache, int64_t row) {
  const at::NoGradGuard no_grad;
  const WithoutCudnnAttention no_plans;
  const int64_t length = ids.size(0);
  const at::Tensor ids_BT = ids.unsqueeze(0);
  const std::vector<c10::IValue> attention = attention_arguments({ids_BT, {}, {}, {}, {}, {}});
  cache.reserve(length);
  const at::Tensor logits_BV =
      call("next_logits",
           {ids_BT, weights_, layers_, attention[0], attention[1], cache.keys(row, 1, length),
            cache.values(row, 1, length), c10::IValue(), c10::IValue()});
  cache.set_length(row, length);
  return logits_BV[0];
}

at::Tensor Llama::extend_rows(const at::Tensor& ids, KeyValueCache& cache) {
  const at::NoGradGuard no_grad;
  const WithoutCudnnAttention no_plans;
  const int64_t rows = ids.size(0);
  std::vector<int64_t> lengths;
  for (int64_t row = 0; row < rows; ++row) lengths.push_back(cache.length(row));
  const auto [shortest, longest] = std::minmax_element(lengths.begin(), lengths.end());
  const int64_t positions = *longest + 1;
  cache.reserve(positions);
  const at::Tensor positions_B = at::tensor(lengths).to(device());
  c10::IValue mask;
  if (*shortest < *longest) {
    mask = at::arange(positions, positions_B.options())
               .le(positions_B.unsqueeze(1))
               .unsqueeze(1)
               .unsqueeze(1);
  }
  at::Tensor logits_BV =
      call("next_logits", {ids.unsqueeze(1), weights_, layers_, cos_.index_select(0, positions_B),
                           sin_.index_select(0, positions_B), cache.keys(0, rows, positions),
                           cache.values(0, rows, positions), positions_B, mask});
  for (int64_t row = 0; row < rows; ++row)
    cache.set_length(row, lengths[static_cast<size_t>(row)] + 1);
  return logits_BV;
}

at::Tensor Llama::whole_loss(const MicroBatch& micro) {
  const std::vector<c10::IValue> attention = attention_arguments(micro);
  return call("loss", {micro.ids, micro.targets, micro.scale, weights_, layers_, attention[0],
                       attention[1], attention[2], dropout_keys(micro)});
}

at::Tensor Llama::states(const at::Tensor& ids) {
  const at::NoGradGuard no_grad;
  const WithoutCudnnAttention no_plans;
  const std::vector<c10::IValue> attention = attention_arguments({ids, {}, {}, {}, {}, {}});
  return call("states", {ids, weights_, layers_, attention[0], attention[1], attention[2]});
}

at::Tensor Llama::head(const at::Tensor& states) {
  const at::NoGradGuard no_grad;
  return call("head", {states, weights_});
}

at::Tensor Llama::target_losses(const MicroBatch& micro) {
  if (modules_ != nullptr) return target_losses_by_modules(&micro);
  const at::NoGradGuard no_grad;
  const WithoutCudnnAttention no_plans;
  const std::vector<c10::IValue> attention = attention_arguments(micro);
  const at::Tensor losses = call("target_losses", {micro.ids, micro.targets, weights_, layers_,
                                                   attention[0], attention[1], attention[2]});
  return losses.view_as(micro.targets);
}

void Llama::sum_as_they_come(const at::Tensor& loss, const at::Tensor& grad, bool first,
                             const ElementsFinished& finished) {
  if (!std::exchange(has_hooks_, true)) {
    for (size_t i = 0; i < leaves_.size(); ++i) {
      leaves_[i].register_hook([this, i](const at::Tensor& gradient) {
        if (take_gradient_) take_gradient_(i, gradient);
      });
    }
  }
  // With activation checkpointing the backward of a layer yields its gradients, and then so does
  // the backward of the whole.
  std::vector<bool> taken(leaves_.size());
  take_gradient_ = [&](size_t i, const at::Tensor& gradient) {
    if (taken[i]) return;
    taken[i] = true;
    const at::NoGradGuard no_grad;
    accumulate(gradient, grad.narrow(0, offsets_[i], leaves_[i].numel()), first);
    finished(offsets_[i], leaves_[i].numel());
  };
  try {
    torch::autograd::grad({loss}, leaves_, {at::ones_like(loss)});
  } catch (...) {
    take_gradient_ = nullptr;
    throw;
  }
  take_gradient_ = nullptr;
  if (std::find(taken.begin(), taken.end(), false) != taken.end())
    throw Error(ErrorKind::kInternal, "a weight has no gradient");
}

at::Tensor Llama::loss_and_gradient(const MicroBatch& micro, const at::Tensor& grad, bool first,
                                    const ElementsFinished& finished) {
  const at::Tensor loss = [&] {
    RECORD_USER_SCOPE("forward");
    return activation_checkpointing_ ? checkpointed_loss(micro) : whole_loss(micro);
  }();
  if (finished && device().is_cpu() && !sums_by_products_) {
    RECORD_USER_SCOPE("backward");
    sum_as_they_come(loss, grad, first, finished);
    return loss.detach();
  }
  const auto sum_of = [&](size_t i) { return grad.narrow(0, offsets_[i], leaves_[i].numel()); };
  std::optional<GradientSums> sums;
  if (sums_by_products_) {
    sums.emplace();
    for (size_t i = 0; i < leaves_.size(); ++i) sums->expect(leaves_[i], sum_of(i), first);
  }
  const auto gradients = [&] {
    RECORD_USER_SCOPE("backward");
    return torch::autograd::grad({loss}, leaves_, {at::ones_like(loss)},
                                 /*retain_graph=*/std::nullopt, /*create_graph=*/false,
                                 /*allow_unused=*/sums_by_products_);
  }();
  RECORD_USER_SCOPE("sum gradient");
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const bool added = sums && sums->has(leaves_[i]);
    if (gradients[i].defined()) {
      accumulate(gradients[i], sum_of(i), first && !added);
    } else if (!added) {
      throw Error(ErrorKind::kInternal, "a weight has no gradient");
    }
    if (finished) finished(offsets_[i], leaves_[i].numel());
  }
  return loss.detach();
}

}  // namespace lmtrain
