#include "train/plan.h"

#include <algorithm>
#include <cmath>

#include "schedule/lr_schedule.h"
#include "schedule/span.h"
#include "train/resolve.h"

namespace lmtrain {
namespace {

struct RunUnits {
  bool counts_steps;
  double total;     // in steps or targets, as the run counts
  double per_step;  // of the same
  double tokens_per_epoch;
};

// Something that happens every `given` span of the run, and at its end.
std::optional<int64_t> count_events(const Span& given, const Config& config, const RunUnits& run,
                                    int64_t steps) {
  const Span every = epochs_in_tokens(given, run.tokens_per_epoch);
  if (every.unit == Span::Unit::kSeconds) return std::nullopt;
  if (every.value <= 0) return 1;
  const double span =
      resolve_span(every, run.total, run.counts_steps, static_cast<double>(config.batch.tokens));
  const double steps_between = every.unit == Span::Unit::kSteps ? every.value : span / run.per_step;
  // What falls due during the last step is the one at the end.
  const auto steps_before_the_last = static_cast<double>(steps - 1);
  const double due = std::floor(steps_before_the_last / steps_between + 1e-9);
  return 1 + static_cast<int64_t>(std::min(due, steps_before_the_last));
}

std::vector<LearningRatePoint> learning_rate_points(const Config& config, const RunUnits& run) {
  const LrSchedule schedule(config.lr_schedule, config.optimizer.lr, run.total, run.counts_steps,
                            static_cast<double>(config.batch.tokens));
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
  const RunUnits run = {config.train.steps.has_value(), total,
                        total / static_cast<double>(std::max<int64_t>(1, plan.steps)),
                        static_cast<double>(order.targets_given())};
  plan.learning_rate = learning_rate_points(config, run);
  plan.checkpoints = count_events(config.checkpoint.every, config, run, plan.steps);
  plan.evaluations = 0;
  if (data.eval_shard) {
    plan.evaluations = count_events(config.eval.every, config, run, plan.steps);
    if (plan.evaluations) ++*plan.evaluations;  // before the first step
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
