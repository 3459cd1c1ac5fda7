#include "training/engine.h"

#include "device/device.h"
#include "device/releasable_memory.h"
#include "device/torch_headers.h"
#include "eval/evaluate.h"
#include "optim/clip.h"
#include "optim/make_optimizer.h"
#include "training/step.h"

namespace lmtrain {

struct Engine::Buffers {
  Parameters parameters;
  at::Tensor gradient;

  // The arguments are those of the constructor.
  static Buffers of(const Config& config, const Precision& precision, const at::Device& device,
                    const Parts& parts) {
    ParameterLayout layout(config.model, *config.model.vocab_size);
    const int64_t size = layout.flat_size();
    if (!parts.held) {
      Parameters whole(std::move(layout), precision.dtype, device);
      const at::Tensor gradient = at::zeros_like(whole.master());
      return {std::move(whole), gradient};
    }
    if (device.is_cpu() && !parts.pages) {
      return {Parameters::releasable(std::move(layout), precision.dtype),
              releasable_zeros(size, at::kFloat)};
    }
    const std::shared_ptr<PageMapper> mapper = parts.pages ? parts.pages : page_mapper(device);
    SlotMemory of_weights(mapper), of_gradient(mapper);
    const Slots slots = module_slots(layout, *parts.held);
    const auto zeros = [&](SlotMemory& memory, at::ScalarType dtype) {
      return memory.zeros(size, dtype, slots);
    };
    // Other processes' masters are gathered in evaluations alone, where there is no gradient. So
    // both share memory, unless a step gathers the masters themselves.
    const bool has_working = precision.dtype != at::kFloat;
    const at::Tensor master = zeros(has_working ? of_gradient : of_weights, at::kFloat);
    const at::Tensor working = has_working ? zeros(of_weights, precision.dtype) : master;
    return {Parameters(std::move(layout), master, working), zeros(of_gradient, at::kFloat)};
  }
};

Engine::Engine(const Config& config)
    : Engine(config, precision_of(config), device_of(config), Parts{}) {}

Engine::Engine(const Config& config, const BatchShare& share, const ParameterFilter& updates,
               const std::optional<std::vector<ElementRange>>& held)
    : Engine(config, precision_of(config), device_of(config),
             {.make_optimizer =
                  [&](Parameters& parameters) {
                    return lmtrain::make_optimizer(config.optimizer, parameters, updates);
                  },
              .recorder = {},
              .held = held,
              .share = share}) {}

Engine::Engine(const Config& config, const Precision& precision, const at::Device& device,
               Parts parts)
    : Engine(config, precision, std::move(parts), Buffers::of(config, precision, device, parts)) {}

Engine::Engine(const Config& config, const Precision& precision, Parts&& parts, Buffers buffers)
    : config_(config),
      parameters_(std::move(buffers.parameters)),
      fp32_parameters_(parameters_.in_fp32()),
      model_(config_.model, parameters_, config_.sequence.max_length, config_.compile,
             config_.loss.z_loss, precision.fp8, static_cast<uint64_t>(config_.seed)),
      precision_(precision),
      evaluation_precision_(parts.evaluation.value_or(
          evaluation_precision(precision, parameters_.master().device()))),
      optimizer_(parts.make_optimizer ? parts.make_optimizer(parameters_)
                                      : make_optimizer(config_.optimizer, parameters_)),
      gradient_(std::move(buffers.gradient)),
      held_(parts.held) {
  if (config_.parallel.sum == ParallelSum::kExact)
    parts_.emplace(config_.parallel.parts, parts.share);
  if (config_.compile != CompileMode::kGraph) return;
  if (!parts.recorder) parts.recorder = graph_recorder(model_.device());
  graphs_ = std::make_unique<StepGraphs>(std::move(parts.recorder), model_, *optimizer_, gradient_);
}

Engine::~Engine() = default;

void Engine::initialize(int64_t seed) {
  reset_optimizer();
  parameters_.initialize(seed, config_.model.initializer_range, config_.model.initializer);
}

void Engine::initialize_masters(int64_t seed, const ParameterFilter& takes) {
  reset_optimizer();
  parameters_.initialize_masters(seed, config_.model.initializer_range, config_.model.initializer,
                                 takes);
}

void Engine::reset_optimizer() {
  for (const OptimizerBuffer& buffer : optimizer_->buffers()) buffer.values.zero_();
}

double Engine::forward_backward(const Batch& batch, int64_t micro_rows, double loss_scale,
                                bool use_graphs) {
  return accumulate_batch(model_, batch, micro_rows * batch.length, gradient_, loss_scale,
                          use_graphs ? graphs_.get() : nullptr);
}

std::vector<double> Engine::forward_backward(const Batch& batch, int64_t micro_rows,
                                             double loss_scale, GradientReducer& reducer) {
  reducer.begin_step();
  const auto ready = [&](int64_t first, int64_t size) { reducer.gradient_ready({first, size}); };
  if (held_) {
    return accumulate_by_modules(
        model_, batch, parts_ ? parts_->rows_of_share(batch) : std::vector{RowRange{0, batch.rows}},
        micro_rows, gradient_, loss_scale, ready);
  }
  // A captured graph does not tell which elements it has finished.
  const ElementsFinished finished =
      reducer.overlaps() && !graphs_ ? ElementsFinished(ready) : ElementsFinished();
  const int64_t micro_tokens = micro_rows * batch.length;
  if (parts_) {
    return parts_->accumulate(model_, batch, micro_tokens, gradient_, loss_scale, graphs_.get(),
                              finished);
  }
  return {accumulate_batch(model_, batch, micro_tokens, gradient_, loss_scale, graphs_.get(),
                           finished)};
}

double Engine::grad_norm() const { return gradient_norm(gradient_, layout()); }

double Engine::clip(double grad_norm) const {
  if (!held_) return clip_gradient(config_.clip, gradient_, grad_norm);
  double factor = 1;
  for (const ElementRange& range : *held_)
    factor = clip_gradient(config_.clip, range.of(gradient_), grad_norm);
  return factor;
}

void Engine::update(const UpdateStep& step, bool use_graphs) {
  if (graphs_ && use_graphs) {
    graphs_->update(step);
  } else {
    optimizer_->update(step, gradient_);
  }
}

Llama& Engine::evaluation_model() {
  const bool same_weights = evaluation_precision_.dtype == precision_.dtype;
  if (same_weights && evaluation_precision_.fp8 == precision_.fp8) return model_;
  if (!evaluation_model_) {
    evaluation_model_.emplace(config_.model, same_weights ? parameters_ : fp32_parameters_,
                              config_.sequence.max_length, config_.compile);
  }
  return *evaluation_model_;
}

}  // namespace lmtrain
