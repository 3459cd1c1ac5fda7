// Loss and gradient of a step that the processes of a run compute together. Each computes its share
// of the rows; then losses and gradients are summed over all processes, in the way of
// `parallel.sum`. Nothing is sent before the last micro-batch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "batching/batch.h"
#include "config/config.h"
#include "processes/processes.h"
#include "run/shared/agreement.h"
#include "train/engine.h"

namespace lmtrain {

class StepSum {
 public:
  // Requires processes that check_processes() allows.
  StepSum(Processes& processes, const ParallelConfig& config);

  // Which share of a batch this process computes.
  BatchShare share() const { return {processes_.rank(), processes_.count()}; }
  // Forward and backward of the share (Engine::forward_backward): leaves its gradient in the engine
  // and returns its losses. May be called again where it has thrown.
  std::vector<double> compute(Engine& engine, const Batch& share, int64_t micro_rows,
                              double loss_scale);
  // The loss of the whole batch, from everybody's losses as Agreement::exchange() gives them.
  static double loss_of(const std::vector<double>& losses);
  // The gradient of the whole batch, in the engine; the same bits in every process.
  void sum_gradient(Engine& engine);

 private:
  Processes& processes_;
  std::optional<StepParts> parts_;  // of `exact`
};

// Error(kConfig) for a number of processes that the settings do not allow.
void check_processes(const Processes& processes, const ParallelConfig& config);

}  // namespace lmtrain
