// An Engine makes training steps. It holds parameters, model, optimizer, gradient and, with
// `compile: graph`, their captured graphs. A step is forward_backward(), then, if the caller wants
// to apply it, clip() and update(). Not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "batching/batch.h"
#include "config/config.h"
#include "device/captured_graph.h"
#include "device/device.h"
#include "device/spin_control.h"
#include "distributed/gradient_reducer.h"
#include "distributed/ranges.h"
#include "model/llama.h"
#include "optim/optimizer.h"
#include "training/step.h"
#include "training/step_graphs.h"

namespace lmtrain {

class Engine {
 public:
  // Tests give these parts, which otherwise follow from the config.
  struct Parts {
    std::function<std::unique_ptr<Optimizer>(Parameters&)> make_optimizer{};
    std::unique_ptr<GraphRecorder> recorder{};
    std::optional<Precision> evaluation{};  // else evaluation_precision()
    std::optional<std::vector<ElementRange>> held{};
    BatchShare share{};
  };

  // `config` is resolved (training/resolve.h). Weights and the optimizer's state are zero until
  // they are initialised or loaded. All constructors throw the errors of make_optimizer.
  explicit Engine(const Config& config);
  // Makes the steps of one process of a run, which computes `share`. update() updates only the
  // tensors for which `updates` returns true. With `held` weights and gradient lie in memory that
  // can be released (device/releasable_memory.h), and clip() reads and writes only these elements
  // of the gradient. That is for CPUs, without graphs.
  Engine(const Config& config, const BatchShare& share, const ParameterFilter& updates,
         const std::optional<std::vector<ElementRange>>& held = std::nullopt);
  // Computes in this precision on this device, whatever the config says.
  Engine(const Config& config, const Precision& precision, const at::Device& device, Parts parts);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  // Sets random weights from this seed, and calls reset_optimizer().
  void initialize(int64_t seed);
  // Sets random masters from this seed, for the tensors for which `takes` returns true.
  void initialize_masters(int64_t seed, const ParameterFilter& takes);
  // Sets the optimizer's state to its values before the first update.
  void reset_optimizer();

  // Overwrites gradient() with the gradient of the mean loss over the batch's targets and returns
  // that loss, in nats a target. `micro_rows` rows go through the model at once, at least 1. Inside
  // the model both are multiplied by `loss_scale`, a power of two; the results are divided by it
  // again. `use_graphs` false computes the same bits without the captured graphs. An error of
  // libtorch that says that memory ran out passes through as it is.
  double forward_backward(const Batch& batch, int64_t micro_rows, double loss_scale = 1,
                          bool use_graphs = true);
  // Does the same for the rows of one process of a run: `batch` holds its share of the batch, and
  // may hold no rows. Begins a step of `reducer` and hands the gradient over to it; the caller must
  // call finish(). Returns the share's parts of the batch's loss: one number, or with an exact
  // parallel.sum one number for each part (training/step.h).
  std::vector<double> forward_backward(const Batch& batch, int64_t micro_rows, double loss_scale,
                                       GradientReducer& reducer);
  // Returns how many losses the forward_backward() of a share returns.
  size_t num_losses() const { return parts_ ? parts_->parts_of_share() : 1; }
  // Returns the L2 norm of gradient() over all parameters; not finite where the gradient is not.
  double grad_norm() const;
  // Clips as `clip` of the config says: by value in gradient() itself, by norm through the factor
  // that it returns, which is UpdateStep::grad_scale of the update. `grad_norm` is the norm of
  // gradient().
  double clip(double grad_norm) const;
  // Applies gradient() to masters, optimizer state and working weights. The optimizer may overwrite
  // gradient().
  void update(const UpdateStep& step, bool use_graphs = true);

  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  const ParameterLayout& layout() const { return parameters_.layout(); }
  Llama& model() { return model_; }
  // Returns a model with the same weights in the precision of evaluations (evaluation_precision()
  // of eval/evaluate.h): the masters where that is fp32. It is compiled at the first call, unless
  // it is model().
  Llama& evaluation_model();
  Optimizer& optimizer() { return *optimizer_; }
  const at::Tensor& gradient() const { return gradient_; }  // flat, fp32
  at::Device device() const { return model_.device(); }
  // Returns true where the config asks for graphs, even after StepGraphs has given them up.
  bool has_graphs() const { return graphs_ != nullptr; }

 private:
  Config config_;
  Parameters parameters_;
  Parameters fp32_parameters_;
  Llama model_;
  Precision precision_, evaluation_precision_;
  std::optional<Llama> evaluation_model_;  // empty if model_ serves, and before it is wanted
  std::unique_ptr<Optimizer> optimizer_;
  at::Tensor gradient_;
  std::optional<std::vector<ElementRange>> held_;
  std::optional<StepParts> parts_;  // set when parallel.sum is exact
  std::unique_ptr<StepGraphs> graphs_;
  SpinControl spin_control_;
};

}  // namespace lmtrain
