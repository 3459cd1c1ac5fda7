// Computes the plan of a run from config and prepared data, for `lmtrain plan`; trains nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "batching/batch_order.h"
#include "config/config.h"
#include "prepare/prepare.h"
#include "training/memory_plan.h"

namespace lmtrain {

struct LearningRatePoint {
  std::string at;    // "start", "end of warm-up", "50 %"...
  int64_t step = 1;  // the first step that begins at this point or later
  double rate = 0;
};

struct RunPlan {
  int64_t num_parameters = 0;
  double flops_per_token = 0;  // 6N + 12 L D T, for the longest rows
  int64_t steps = 0;
  int64_t targets = 0;  // of all steps
  std::vector<LearningRatePoint> learning_rate;
  // These numbers are missing if they depend on a duration of time. Evaluations include the first
  // and the last, and are 0 without held-out text; checkpoints include the last.
  std::optional<int64_t> evaluations;
  std::optional<int64_t> checkpoints;
  std::optional<int64_t> kept_checkpoints;  // checkpoints before the end that are never removed
  // How many more checkpoints evaluations with a new lowest loss may make at most; 0 without
  // checkpoint.keep_best.
  std::optional<int64_t> best_checkpoints;
  int64_t micro_positions = 0;  // rows x length of the largest micro-batch
  MemoryPlan memory;
};

// Returns the plan of a run. `config` is resolved. `memory` is of one of `num_processes`.
RunPlan plan_run(const Config& config, const PreparedData& data, const BatchOrder& order,
                 int num_processes);

// Divides the batches of the run into `columns` >= 1 equal parts, or, if there are fewer batches,
// into parts of one batch. Entry [column][i] is the share of the part's batches, from 0 to 1, that
// have length order.batch_lengths()[i].
std::vector<std::vector<double>> length_shares(const BatchOrder& order, int64_t columns);

}  // namespace lmtrain
