// Computes loss and gradient of a step with all processes of a run. Each computes its share of the
// rows; then losses and gradients are summed over all processes, in the way that `parallel.sum`
// says. Nothing is sent before the last micro-batch. In its backward the sum of the gradient begins
// (distributed/overlapped_sum.h) where gradients are in host memory; on GPUs, and with
// `compile: graph`, it begins after it. Where the processes divide the weights, a step is one
// pass over their pieces instead, in which the gradient is summed
// (Llama::loss_and_gradient_by_pieces).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "batching/batch.h"
#include "config/config.h"
#include "distributed/processes.h"
#include "distributed/optimizer_shards.h"
#include "distributed/overlapped_sum.h"
#include "training/engine.h"

namespace lmtrain {

class StepSum {
 public:
  // Requires processes that check_processes() (distributed/process_checks.h) allows. `engine`,
  // `shards` and `lines` are those of the run, and live as long. Every process makes its StepSum at
  // the same point.
  StepSum(Processes& processes, const ParallelConfig& config, Engine& engine,
          const OptimizerShards& shards, ExchangeLines& lines);

  // Returns the share of a batch that this process computes.
  BatchShare share() const { return {processes_.rank(), processes_.count()}; }
  // Computes forward and backward of the share (Engine::forward_backward): leaves its gradient in
  // the engine and returns its part of the batch's loss: one number, or one for each part where
  // parallel.sum is exact. May be called again where it has thrown, unless is_spoiled().
  std::vector<double> compute(const Batch& share, int64_t micro_rows, double loss_scale);
  // Returns whether compute() has thrown after the sum had begun. Then sum_gradient() must be
  // called, its gradient is no good, and all processes have to compute the step again.
  bool is_spoiled() const { return is_spoiled_; }
  // Takes part in the sum, in place of compute(), without rows: the gradient is no good then.
  void take_part_without_rows();
  // Returns as many zeros as compute() returns numbers, for a process that has no rows to compute.
  std::vector<double> no_losses() const;
  // Returns the loss of the whole batch: the sum of all processes' losses, in the order in which
  // Agreement::exchange() returns them.
  static double loss_of(const std::vector<double>& losses);
  // Sums the engine's gradient over all processes, after compute() in each. Every process then has
  // the gradient of the whole batch, with the same bits; where the optimizer is divided, only in
  // the tensors that it updates.
  void sum_gradient();
  // Waits for the sum, where it has begun in the backward.
  void end_begun_sum();

  // Tests set this. It is called when elements were handed to the sum, and may throw.
  std::function<void()> after_elements;

 private:
  ElementsFinished begin_sum();
  std::vector<double> compute_by_pieces(const Batch& share, int64_t micro_rows, double loss_scale);

  Processes& processes_;
  Engine& engine_;
  const OptimizerShards& shards_;
  std::optional<StepParts> parts_;           // none unless parallel.sum is exact
  std::unique_ptr<OverlappedSum> by_chunk_;  // none where the gradient is summed as a whole
  bool overlaps_ = false;                    // whether the sum begins in the backward
  bool is_spoiled_ = false;
};

}  // namespace lmtrain
