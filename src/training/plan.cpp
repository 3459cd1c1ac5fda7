#include "training/plan.h"

#include <algorithm>
#include <cmath>

#include "batching/batch.h"
#include "schedule/due.h"
#include "schedule/lr_schedule.h"
#include "schedule/run_clock.h"
#include "training/resolve.h"

namespace lmtrain {
namespace {

// Counts the steps before the last one after which due(before, after) is true. `run` is the clock
// of the run at its beginning; each of the `steps` trains equally many targets, in no time.
template <class Due>
int64_t count_steps(const RunClock& run, int64_t steps, double targets_per_step, const Due& due) {
  const auto at = [&](int64_t step) {
    const auto done = static_cast<double>(step);
    return run.after(done, done * targets_per_step);
  };
  int64_t count = 0;
  for (int64_t step = 1; step < steps; ++step) {
    if (due(at(step - 1), at(step))) ++count;
  }
  return count;
}

bool by_the_clock(const TrainingDuration& duration) {
  return duration.unit == TrainingDuration::Unit::kSeconds;
}

// Returns the rates to show. `per_step` is a step's part of run.total, in its unit.
std::vector<LearningRatePoint> learning_rate_points(const LrSchedule& schedule, const RunClock& run,
                                                    double per_step) {
  const double last = run.total - per_step;
  std::vector<std::pair<double, std::string>> milestones = {{0, "start"},
                                                            {schedule.warmup(), "end of warm-up"},
                                                            {0.25 * run.total, "25 %"},
                                                            {0.50 * run.total, "50 %"},
                                                            {0.75 * run.total, "75 %"},
                                                            {last, "last step"}};
  if (schedule.decay_begin() > schedule.warmup() && schedule.decay_begin() < run.total)
    milestones.emplace_back(schedule.decay_begin(), "decay begins");
  std::stable_sort(milestones.begin(), milestones.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<LearningRatePoint> points;
  for (const auto& [done, at] : milestones) {
    // A rate belongs to a whole step: the first that begins there or later.
    const double before = std::ceil(done / per_step - 1e-9);
    points.push_back({at, static_cast<int64_t>(before) + 1, schedule.at(before * per_step)});
  }
  return points;
}

}  // namespace

RunPlan plan_run(const Config& config, const PreparedData& data, const BatchOrder& order,
                 int num_processes) {
  const ParameterLayout layout(config.model, *config.model.vocab_size);
  const int64_t longest = order.batch_lengths().back();
  RunPlan plan;
  plan.num_parameters = layout.num_parameters();
  plan.flops_per_token = layout.flops_per_token(longest);
  plan.steps = order.num_batches();
  plan.targets = order.num_targets();
  const RunClock run = run_clock(config, order);
  const auto steps = static_cast<double>(std::max<int64_t>(1, plan.steps));
  const LrSchedule rates(config.lr_schedule, config.optimizer.peak_lr(), run);
  plan.learning_rate = learning_rate_points(rates, run, run.total / steps);
  // Percent are of the batches: they are whole, so that they end a little behind train.tokens.
  RunClock batches = run;
  batches.total = run.counts_steps ? steps : static_cast<double>(plan.targets);
  const auto count = [&](const auto& due) {
    return count_steps(batches, plan.steps, static_cast<double>(plan.targets) / steps, due);
  };
  const SaveSchedule saves(config, rates);
  const std::optional<TrainingDuration>& keep_every = config.checkpoint.keep_every;
  if (!keep_every || !by_the_clock(*keep_every)) {
    plan.kept_checkpoints = count(
        [&](const RunClock& before, const RunClock& after) { return saves.kept(before, after); });
    if (!by_the_clock(config.checkpoint.every)) {
      plan.checkpoints = 1 + count([&](const RunClock& before, const RunClock& after) {
                           return saves.due(before, after);
                         });
    }
  }
  plan.evaluations = 0;
  plan.best_checkpoints = 0;
  if (data.eval_shard) {
    plan.evaluations.reset();
    const Cadence every(config.eval.every);
    if (!by_the_clock(config.eval.every)) {
      plan.evaluations = 2 + count([&](const RunClock& before, const RunClock& after) {
                           return every.due(before, after);
                         });  // with those before the first step and at the end
    }
    if (config.checkpoint.keep_best > 0) {
      plan.best_checkpoints.reset();
      if (plan.evaluations && plan.checkpoints) {
        plan.best_checkpoints = 1 + count([&](const RunClock& before, const RunClock& after) {
                                  return every.due(before, after) && !saves.due(before, after);
                                });  // with that before the first step
      }
    }
  }
  plan.micro_positions = micro_rows(config, {}, longest) * longest;
  plan.memory = plan_memory(config, precision_of(config), plan.micro_positions, num_processes);
  return plan;
}

std::vector<std::vector<double>> length_shares(const BatchOrder& order, int64_t columns) {
  const int64_t num_batches = order.num_batches();
  columns = std::min(columns, num_batches);
  std::vector<std::vector<double>> shares;
  for (int64_t column = 0; column < columns; ++column) {
    const int64_t begin = num_batches * column / columns;
    const int64_t end = num_batches * (column + 1) / columns;
    std::vector<double>& share = shares.emplace_back();
    for (const int64_t count : order.count_lengths(begin, end))
      share.push_back(static_cast<double>(count) / static_cast<double>(end - begin));
  }
  return shares;
}

}  // namespace lmtrain
