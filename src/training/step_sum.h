// Computes loss and gradient of a step with all processes of a run. Each process computes its share
// of the rows. Losses and gradients are then summed over all processes; `parallel.sum` says how.
//
// Nothing is sent before the last micro-batch. With gradients in host memory the gradient sum
// begins in the backward pass of that micro-batch (distributed/overlapped_sum.h). On GPUs, and with
// `compile: graph`, it begins after it. With divided weights a step is one pass over the pieces of
// the weights, which also sums the gradient (Llama::loss_and_gradient_by_pieces).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "batching/batch.h"
#include "config/config.h"
#include "distributed/optimizer_shards.h"
#include "distributed/overlapped_sum.h"
#include "distributed/processes.h"
#include "training/engine.h"

namespace lmtrain {

class StepSum {
 public:
  // require_preflight() (training/preflight.h) must allow `processes`. All references but
  // `config` must outlive this object. Every process constructs its StepSum at the same point.
  StepSum(Processes& processes, const ParallelConfig& config, Engine& engine,
          const OptimizerShards& shards, ExchangeLines& lines);

  // Returns the share of a batch that this process computes.
  BatchShare share() const { return {processes_.rank(), processes_.count()}; }
  // Computes forward and backward of the share (Engine::forward_backward), and leaves the gradient
  // in the engine. Returns the share's part of the batch's loss: one number, or with an exact
  // parallel.sum one number a part. After an exception it may be called again, unless is_spoiled().
  std::vector<double> compute(const Batch& share, int64_t micro_rows, double loss_scale);
  // Returns whether compute() threw after the gradient sum had begun. If so, the caller must call
  // sum_gradient() and discard the gradient, and all processes must compute the step again.
  bool is_spoiled() const { return is_spoiled_; }
  // Takes the place of compute() in a process without rows. It joins a gradient sum that begins in
  // the backward pass. The gradient is then invalid in all processes.
  void take_part_without_rows();
  // Returns zeros in place of compute()'s losses, for a process without rows.
  std::vector<double> no_losses() const;
  // Returns the loss of the whole batch: the sum of the losses of all processes, in the order of
  // Agreement::exchange().
  static double loss_of(const std::vector<double>& losses);
  // Sums the engine's gradient over all processes; each has called compute(). Every process then
  // has the batch's gradient, with the same bits. With a divided optimizer it has the gradient of
  // only the tensors that it updates.
  void sum_gradient();
  // Waits for a sum that began in the backward pass. Does nothing if no sum begins there.
  void end_begun_sum();

  // Tests set this function. It is called after elements were handed to the sum, and may throw.
  std::function<void()> after_elements;

 private:
  ElementsFinished begin_sum();
  std::vector<double> compute_by_pieces(const Batch& share, int64_t micro_rows, double loss_scale);

  Processes& processes_;
  Engine& engine_;
  const OptimizerShards& shards_;
  std::optional<StepParts> parts_;           // set when parallel.sum is exact
  std::unique_ptr<OverlappedSum> by_chunk_;  // null unless the gradient is summed chunk by chunk
  bool overlaps_ = false;                    // whether the sum begins in the backward
  bool is_spoiled_ = false;
};

}  // namespace lmtrain
