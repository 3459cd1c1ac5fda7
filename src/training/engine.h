// An Engine makes the training steps of one process. It owns parameters, model, optimizer, gradient
// and, with `compile: graph`, their captured graphs. A step is forward_backward() and then, unless
// the caller refuses the step, clip() and update(). Not thread-safe.
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
#include "device/element_range.h"
#include "device/slotted_memory.h"
#include "distributed/gradient_reducer.h"
#include "model/llama.h"
#include "optim/optimizer.h"
#include "training/step.h"
#include "training/step_graphs.h"

namespace lmtrain {

class Engine {
 public:
  // Replaces parts that otherwise follow from the config. Tests and bench give them; the
  // constructor below fills make_optimizer, held and share from its arguments.
  struct Parts {
    std::function<std::unique_ptr<Optimizer>(Parameters&)> make_optimizer{};
    std::unique_ptr<GraphRecorder> recorder{};
    std::optional<Precision> evaluation{};  // nothing: evaluation_precision()
    std::optional<std::vector<ElementRange>> held{};
    BatchShare share{};
    // Where the weights and the gradient of `held` lie: null is page_mapper() on a GPU, and
    // releasable memory on a CPU.
    std::shared_ptr<PageMapper> pages{};
  };

  // `config` is resolved (training/resolve.h). Weights and the optimizer's state are zero at first.
  // All constructors throw the errors of make_optimizer and StepParts.
  explicit Engine(const Config& config);
  // Makes the steps of one process of several, which computes `share` of each batch. update()
  // updates only the tensors for which `updates` returns true. With `held`, without graphs, weights
  // and gradient keep only these elements and the norms: they lie in releasable memory
  // (device/releasable_memory.h), on a GPU in slots (module_slots() of model/module_weights.h).
  // Then clip() reads and writes only these elements of the gradient.
  Engine(const Config& config, const BatchShare& share, const ParameterFilter& updates,
         const std::optional<std::vector<ElementRange>>& held = std::nullopt);
  // Uses this precision and device in place of the config's.
  Engine(const Config& config, const Precision& precision, const at::Device& device, Parts parts);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  // Sets random weights from this seed, and calls reset_optimizer().
  void initialize(int64_t seed);
  // Sets random masters, not working weights, from this seed for the tensors for which `takes`
  // returns true, and calls reset_optimizer().
  void initialize_masters(int64_t seed, const ParameterFilter& takes);
  // Sets the optimizer's state to its values before the first update.
  void reset_optimizer();

  // Overwrites gradient() with the gradient of the mean loss over the batch's targets, and returns
  // that loss, in nats a target. `micro_rows` >= 1 rows go through the model at once. Inside the
  // model loss and gradient are multiplied by `loss_scale`, a power of two; the results are not.
  // Without `use_graphs` it computes the same bits without captured graphs. Throws libtorch's own
  // error if memory runs out.
  double forward_backward(const Batch& batch, int64_t micro_rows, double loss_scale = 1,
                          bool use_graphs = true);
  // Does the same for one process of several: `batch` holds its share of the batch, perhaps no
  // rows. Begins a step of `reducer` and hands the gradient over to it; the caller must call
  // finish(). Returns the losses of the share: one number, or with parallel.sum "exact" one for
  // each part of StepParts. Over all processes they add up to the loss of the batch.
  std::vector<double> forward_backward(const Batch& batch, int64_t micro_rows, double loss_scale,
                                       GradientReducer& reducer);
  // Returns how many losses forward_backward() returns for a share.
  size_t num_losses() const { return parts_ ? parts_->parts_of_share() : 1; }
  // Returns the L2 norm of gradient() over all parameters; not finite where the gradient is not.
  double grad_norm() const;
  // Clips as config.clip says, and returns the UpdateStep::grad_scale for update(). By value it
  // changes gradient() and returns 1; by norm it only returns a factor. `grad_norm` is the norm of
  // the whole gradient, over all processes.
  double clip(double grad_norm) const;
  // Updates masters, optimizer state and working weights by gradient(), which it may overwrite.
  void update(const UpdateStep& step, bool use_graphs = true);

  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  const ParameterLayout& layout() const { return parameters_.layout(); }
  Llama& model() { return model_; }
  // Returns a model with the same weights in the precision of evaluations (evaluation_precision()
  // of eval/evaluate.h); in fp32 it reads the masters. It may be model() itself; if not, the first
  // call compiles it.
  Llama& evaluation_model();
  Optimizer& optimizer() { return *optimizer_; }
  const at::Tensor& gradient() const { return gradient_; }  // flat, fp32
  at::Device device() const { return model_.device(); }
  // Returns whether the config asks for graphs, even after StepGraphs has given them up.
  bool has_graphs() const { return graphs_ != nullptr; }

 private:
  struct Buffers;
  Engine(const Config& config, const Precision& precision, Parts&& parts, Buffers buffers);

  Config config_;
  Parameters parameters_;
  Parameters fp32_parameters_;
  Llama model_;
  Precision precision_, evaluation_precision_;
  std::optional<Llama> evaluation_model_;  // empty before evaluation_model() makes it
  std::unique_ptr<Optimizer> optimizer_;
  at::Tensor gradient_;
  std::optional<std::vector<ElementRange>> held_;
  std::optional<StepParts> parts_;  // set when parallel.sum is exact
  std::unique_ptr<StepGraphs> graphs_;
};

}  // namespace lmtrain
