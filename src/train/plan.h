// The plan of a run, which `lmtrain plan` shows: worked out from config and prepared data, without
// training anything.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "batching/batch_order.h"
#include "config/config.h"
#include "corpus/prepare.h"
#include "train/memory_plan.h"

namespace lmtrain {

struct LearningRatePoint {
  std::string at;    // "start", "end of warm-up", "50 %"...
  int64_t step = 1;  // the step with this rate
  double rate = 0;
};

struct RunPlan {
  int64_t num_parameters = 0;
  double flops_per_token = 0;  // forward and backward, at the longest rows
  int64_t steps = 0;
  int64_t targets = 0;  // of those steps
  std::vector<LearningRatePoint> learning_rate;
  // Nothing where they follow the clock.
  std::optional<int64_t> evaluations;
  std::optional<int64_t> checkpoints;
  std::optional<int64_t> kept_checkpoints;  // of them, those before the end that are never removed
  int64_t micro_positions = 0;              // rows x length of the largest micro-batch
  MemoryPlan memory;
};

// `config` is resolved.
RunPlan plan_run(const Config& config, const PreparedData& data, const BatchOrder& order);

// Divides the batches of the run into `columns` equal parts, or into as many as there are batches.
// Entry [column][i] is the share of the part's batches that have length order.batch_lengths()[i],
// estimated from at most 64 batches of the part.
std::vector<std::vector<double>> length_shares(const BatchOrder& order, int64_t columns);

}  // namespace lmtrain
