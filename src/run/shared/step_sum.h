// Computes loss and gradient of a step with all processes of a run. Each computes its share of the
// rows; then losses and gradients are summed over all processes, in the way that `parallel.sum`
// says. Nothing is sent before the last micro-batch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "batching/batch.h"
#include "config/config.h"
#include "processes/processes.h"
#include "run/shared/agreement.h"
#include "run/shared/optimizer_shards.h"
#include "train/engine.h"

namespace lmtrain {

class StepSum {
 public:
  // Requires processes that check_processes() allows.
  StepSum(Processes& processes, const ParallelConfig& config);

  // Returns the share of a batch that this process computes.
  BatchShare share() const { return {processes_.rank(), processes_.count()}; }
  // Computes forward and backward of the share (Engine::forward_backward): leaves its gradient in
  // the engine and returns its part of the batch's loss: one number, or one for each part where
  // parallel.sum is exact. May be called again where it has thrown.
  std::vector<double> compute(Engine& engine, const Batch& share, int64_t micro_rows,
                              double loss_scale);
  // Returns as many zeros as compute() returns numbers, for a process that has no rows to compute.
  std::vector<double> no_losses() const;
  // Returns the loss of the whole batch: the sum of all processes' losses, in the order in which
  // Agreement::exchange() returns them.
  static double loss_of(const std::vector<double>& losses);
  // Sums the engine's gradient over all processes, after compute() in each. Every process then has
  // the gradient of the whole batch, with the same bits; where the optimizer is divided, only in
  // the elements that it needs (OptimizerShards::needed_ranges).
  void sum_gradient(Engine& engine, const OptimizerShards& shards);

 private:
  Processes& processes_;
  std::optional<StepParts> parts_;  // none unless parallel.sum is exact
};

// Throws Error(kConfig) for a number of processes that the settings do not allow. One is always
// allowed.
void check_processes(const Processes& processes, const ParallelConfig& config);

}  // namespace lmtrain
