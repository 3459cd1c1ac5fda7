#include "train/plan.h"

#include <algorithm>
#include <cmath>

#include "schedule/lr_schedule.h"
#include "schedule/save_schedule.h"
#include "train/resolve.h"

namespace lmtrain {
namespace {

struct RunUnits {
  bool counts_steps;
  double total;             // in steps or targets, as the run counts
  double per_step;          // of the same
  int64_t steps;            // of the run
  double targets_per_step;  // on average

  // As the trainer counts it; the clock stands still.
  Progress progress(int64_t step) const {
    const auto done = static_cast<double>(step);
    return {done, done * targets_per_step, 100 * done * per_step / total, 0};
  }
  // Steps on which something falls due before the last one, which has what comes at the end.
  template <class Due>
  int64_t count(const Due& due) const {
    int64_t count = 0;
    for (int64_t step = 1; step < steps; ++step) {
      if (due(progress(step - 1), progress(step))) ++count;
    }
    return count;
  }
};

bool by_the_clock(const TrainingDuration& duration) {
  return duration.unit == TrainingDuration::Unit::kSeconds;
}

std::vector<LearningRatePoint> learning_rate_points(const LrSchedule& schedule,
                                                    const RunUnits& run) {
  const double last = run.total - run.per_step;
  std::vector<std::pair<double, std::string>> places = {{0, "start"},
                                                        {schedule.warmup(), "end of warm-up"},
                                                        {0.25 * run.total, "25 %"},
                                                        {0.50 * run.total, "50 %"},
                                                        {0.75 * run.total, "75 %"},
                                                        {last, "last step"}};
  if (schedule.decay_begin() > schedule.warmup() && schedule.decay_begin() < run.total)
    places.emplace_back(schedule.decay_begin(), "decay begins");
  std::stable_sort(places.begin(), places.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<LearningRatePoint> points;
  for (const auto& [done, at] : places) {
    // A rate belongs to a whole step: the first that begins there or later.
    const double before = std::ceil(done / run.per_step - 1e-9);
    points.push_back({at, static_cast<int64_t>(before) + 1, schedule.at(before * run.per_step)});
  }
  return points;
}

}  // namespace

RunPlan plan_run(const Config& config, const PreparedData& data, const BatchOrder& order) {
  const ParameterLayout layout(config.model, *config.model.vocab_size);
  const int64_t longest = order.batch_lengths().back();
  RunPlan plan;
  plan.num_parameters = layout.num_parameters();
  plan.flops_per_token = layout.flops_per_token(longest);
  plan.steps = order.num_batches();
  plan.targets = order.num_targets();
  const double total = run_total(config.train, order);
  const auto steps = static_cast<double>(std::max<int64_t>(1, plan.steps));
  const RunUnits run = {config.train.steps.has_value(), total, total / steps, plan.steps,
                        static_cast<double>(plan.targets) / steps};
  const LrSchedule rates(config.lr_schedule, config.optimizer.lr, run.total, run.counts_steps,
                         static_cast<double>(config.batch.tokens));
  plan.learning_rate = learning_rate_points(rates, run);
  const auto tokens_per_epoch = static_cast<double>(order.targets_given());
  const SaveSchedule saves(config, rates, tokens_per_epoch);
  const std::optional<TrainingDuration>& keep_every = config.checkpoint.keep_every;
  if (!keep_every || !by_the_clock(*keep_every)) {
    plan.kept_checkpoints = run.count(
        [&](const Progress& before, const Progress& after) { return saves.kept(before, after); });
    if (!by_the_clock(config.checkpoint.every)) {
      plan.checkpoints = 1 + run.count([&](const Progress& before, const Progress& after) {
        return saves.due(before, after);
      });
    }
  }
  plan.evaluations = 0;
  if (data.eval_shard) {
    plan.evaluations.reset();
    const Cadence every(epochs_in_tokens(config.eval.every, tokens_per_epoch));
    if (!by_the_clock(config.eval.every)) {
      plan.evaluations = 2 + run.count([&](const Progress& before, const Progress& after) {
        return every.due(before, after);
      });  // with those before the first step and at the end
    }
  }
  const int64_t rows =
      std::max<int64_t>(1, std::min(*config.batch.micro_tokens, config.batch.tokens) / longest);
  plan.micro_positions = rows * longest;
  plan.memory = plan_memory(config, precision_of(config), plan.micro_positions);
  return plan;
}

std::vector<std::vector<double>> length_shares(const BatchOrder& order, int64_t columns) {
  constexpr int64_t kSamples = 64;
  const std::vector<int64_t> lengths = order.batch_lengths();
  const int64_t num_batches = order.num_batches();
  columns = std::min(columns, num_batches);
  std::vector<std::vector<double>> shares;
  for (int64_t column = 0; column < columns; ++column) {
    const int64_t begin = num_batches * column / columns;
    const int64_t end = num_batches * (column + 1) / columns;
    const int64_t samples = std::min(kSamples, end - begin);
    std::vector<double> share(lengths.size(), 0.0);
    for (int64_t i = 0; i < samples; ++i) {
      const int64_t length = order.batch_length(begin + (end - begin) * i / samples);
      const auto found = std::lower_bound(lengths.begin(), lengths.end(), length);
      share[static_cast<size_t>(found - lengths.begin())] += 1.0 / static_cast<double>(samples);
    }
    shares.push_back(std::move(share));
  }
  return shares;
}

}  // namespace lmtrain
