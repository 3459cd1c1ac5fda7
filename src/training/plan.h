// Plans a run, for `lmtrain plan` to show: the plan is worked out from config and prepared data,
// without training anything.
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
  int64_t step = 1;  // the first step that begins there or later
  double rate = 0;
};

struct RunPlan {
  int64_t num_parameters = 0;
  double flops_per_token = 0;  // of forward and backward, for rows of the greatest length
  int64_t steps = 0;
  int64_t targets = 0;  // of those steps
  std::vector<LearningRatePoint> learning_rate;
  // A number is missing where it depends on a duration of time. Evaluations include the first and
  // the last, and are 0 without held-out text; checkpoints include the last.
  std::optional<int64_t> evaluations;
  std::optional<int64_t> checkpoints;
  std::optional<int64_t> kept_checkpoints;  // of them, those before the end that are never removed
  // The most that evaluations with a new lowest loss may add to `checkpoints`; 0 without
  // checkpoint.keep_best.
  std::optional<int64_t> best_checkpoints;
  int64_t micro_positions = 0;  // rows x length of the largest micro-batch
  MemoryPlan memory;
};

// Returns the plan of a run. `config` is resolved. `memory` is the memory of one of
// `num_processes`.
RunPlan plan_run(const Config& config, const PreparedData& data, const BatchOrder& order,
                 int num_processes);

// Divides the batches of the run into `columns` equal parts (at least 1), or into parts of one
// batch where there are fewer batches. Entry [column][i] is the share of the part's batches that
// have length order.batch_lengths()[i].
std::vector<std::vector<double>> length_shares(const BatchOrder& order, int64_t columns);

}  // namespace lmtrain
