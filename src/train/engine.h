// One training step as an object: parameters, model, optimizer, gradient and, with `compile:
// graph`, their captured graphs. A step is forward_backward(), then, if the caller wants to apply
// it, clip() and update(). Not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>

#include "batching/batch.h"
#include "config/config.h"
#include "device/captured_graph.h"
#include "device/device.h"
#include "model/llama.h"
#include "optim/optimizer.h"
#include "train/step_graphs.h"
#include "train/step_parts.h"

namespace lmtrain {

class Engine {
 public:
  // Parts that tests give, which otherwise follow from the config.
  struct Parts {
    std::function<std::unique_ptr<Optimizer>(Parameters&)> make_optimizer;
    std::unique_ptr<GraphRecorder> recorder;
  };

  // `config` is resolved (train/resolve.h). Weights and the optimizer's state are uninitialised.
  explicit Engine(const Config& config);
  // The same with this precision on this device, whatever the config says.
  Engine(const Config& config, const Precision& precision, const at::Device& device, Parts parts);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  // Random weights of this seed, and an optimizer that has made no update.
  void initialize(int64_t seed);
  void reset_optimizer();

  // Puts the gradient of the mean loss over the batch's targets into gradient() and returns that
  // loss, in nats a target; of a share of the batch, its part of both sums. `micro_rows` rows go
  // through the model at once, at least 1. On the way both are multiplied by `loss_scale`, a power
  // of two. `use_graphs` false computes the same bits without the captured graphs. Running out of
  // memory passes through, in the words of libtorch.
  double forward_backward(const Batch& batch, int64_t micro_rows, double loss_scale = 1,
                          bool use_graphs = true);
  // The same in parts: gradient() is the sum over the parts of the share, the losses are theirs.
  std::vector<double> forward_backward(StepParts& parts, const Batch& batch, int64_t micro_rows,
                                       double loss_scale = 1);
  // The norm of gradient(), over all parameters.
  double grad_norm() const;
  // Clips gradient(), whose norm is `grad_norm`, as `clip` of the config says. Returns the factor
  // that update() has to multiply it by (UpdateStep::grad_scale).
  double clip(double grad_norm) const;
  // Applies gradient() to masters, optimizer state and working weights.
  void update(const UpdateStep& step, bool use_graphs = true);

  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  const ParameterLayout& layout() const { return parameters_.layout(); }
  Llama& model() { return model_; }
  // The same weights in fp32, for evaluations: the masters. It is compiled at the first call.
  Llama& fp32_model();
  Optimizer& optimizer() { return *optimizer_; }
  const at::Tensor& gradient() const { return gradient_; }  // flat, fp32
  at::Device device() const { return model_.device(); }
  bool has_graphs() const { return graphs_ != nullptr; }

 private:
  Config config_;
  Parameters parameters_;
  Parameters fp32_parameters_;
  Llama model_;
  std::optional<Llama> fp32_model_;  // none where model_ is fp32 itself, and before it is wanted
  std::unique_ptr<Optimizer> optimizer_;
  at::Tensor gradient_;
  std::unique_ptr<StepGraphs> graphs_;
};

}  // namespace lmtrain
