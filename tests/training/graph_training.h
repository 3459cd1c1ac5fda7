// Twenty steps of a small model, of several shapes, with or without graphs: whatever a graph could
// have kept from the step in which it was captured is another in the next.
#pragma once

#include "optim/make_optimizer.h"
#include "support/tensors.h"
#include "training/engine.h"
#include "training/tiny_model.h"

namespace lmtrain::testing {

inline constexpr int64_t kGraphSteps = 20;

inline ModelConfig graph_model_config() {
  ModelConfig config = tiny_model_config();
  config.hidden_size = 32;        // heads of 8, which every kernel of attention has
  config.intermediate_size = 48;  // as fp8 has it
  return config;
}

// Groups of their own rates.
inline OptimizerConfig graph_optimizer_config(const std::string& type) {
  OptimizerConfig config;
  config.type = value_named<OptimizerType>(type).value();
  config.betas = {0.9, 0.95};
  if (type == "ademamix") config.betas = {0.9, 0.95, 0.999};
  config.groups = {{"*.mlp.*", 2e-3, 0.3}};
  return config;
}

// Rows that the micro-batches of 32 positions do not divide, targets that are not all there and,
// where `packed`, another number of segments every time.
inline Batch graph_batch(int64_t step, bool packed) {
  Batch batch;
  batch.length = std::array<int64_t, 3>{16, 8, 4}.at(static_cast<size_t>(step % 3));
  batch.rows = (step % 2 == 0 ? 96 : 80) / batch.length;
  const int64_t num_positions = batch.rows * batch.length;
  const auto seed = static_cast<uint64_t>(step);
  batch.inputs = random_ids(num_positions, 2 * seed);
  batch.targets = random_ids(num_positions, 2 * seed + 1);
  for (size_t i = 0; i < static_cast<size_t>(step); ++i) batch.targets[3 * i] = kNoTarget;
  batch.num_targets = num_positions - step;
  for (int32_t position = 0; packed && position < static_cast<int32_t>(num_positions); ++position) {
    const bool begins =
        position % batch.length == 0 || random_ids(1, 1000 * seed + position)[0] < step;
    if (begins) batch.segments.push_back(position);
  }
  return batch;
}

struct GraphCase {
  std::string optimizer = "adamw";
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;
  bool packed = false;
  bool checkpointing = false;
  bool fp8 = false;
};

// Makes the optimizer of a training; tests put their own in its place.
using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(const GraphCase&, Parameters&)>;

inline std::unique_ptr<Optimizer> usual_optimizer(const GraphCase& test, Parameters& parameters) {
  return make_optimizer(graph_optimizer_config(test.optimizer), parameters);
}

// What came of the steps: losses and norms, then weights and moments.
struct GraphOutcome {
  std::vector<double> numbers;
  std::vector<at::Tensor> tensors;

  bool operator==(const GraphOutcome& other) const {
    bool same = numbers == other.numbers && tensors.size() == other.tensors.size();
    for (size_t i = 0; same && i < tensors.size(); ++i)
      same = same_bits(tensors[i], other.tensors[i]);
    return same;
  }
};

// `recorder`: null for a training without graphs.
inline GraphOutcome train_by_graphs(const GraphCase& test, CompileMode compile,
                                    std::unique_ptr<GraphRecorder> recorder,
                                    const MakeOptimizer& make = usual_optimizer) {
  const Threads one_thread{1};
  Config config;
  config.model = graph_model_config();
  config.model.activation_checkpointing = test.checkpointing;
  config.sequence.max_length = kTinyLength;
  config.compile = compile;
  config.loss.z_loss = 1e-3;
  config.clip.max = 0.5;
  Engine engine(
      config, {test.dtype, test.fp8}, test.device,
      {[&](Parameters& parameters) { return make(test, parameters); }, std::move(recorder)});
  engine.initialize(/*seed=*/7);

  GraphOutcome outcome;
  for (int64_t step = 0; step < kGraphSteps; ++step) {
    // As fp16 has it: another loss scale from time to time, and a step that is not applied.
    const double loss_scale = test.dtype == at::kHalf ? 1024.0 / (1 << step / 7) : 1;
    const Batch batch = graph_batch(step, test.packed);
    outcome.numbers.push_back(engine.forward_backward(batch, 32 / batch.length, loss_scale));
    outcome.numbers.push_back(engine.grad_norm());
    if (step == 9) continue;
    const double done = static_cast<double>(step + 1);
    engine.update({step + 1,
                   1e-2 / done,
                   engine.clip(outcome.numbers.back()),
                   {.total = static_cast<double>(kGraphSteps), .steps = done}});
  }
  outcome.tensors = {engine.parameters().master().cpu(), engine.parameters().working().cpu()};
  for (const OptimizerBuffer& buffer : engine.optimizer().buffers())
    outcome.tensors.push_back(buffer.values.cpu());
  return outcome;
}

}  // namespace lmtrain::testing
