#include "eval/eval_share.h"

#include <algorithm>
#include <cmath>

#include "schedule/run_clock.h"

namespace lmtrain {
namespace {

constexpr double kMiddlesByTheClock = 19;

double token_cost(const Config& config) {
  return (config.precision == PrecisionSetting::kFp32 ? 1.0 : kFp32Factor) / 3;
}

}  // namespace

double run_tokens(const Config& config, double text_tokens) {
  if (config.train.steps)
    return static_cast<double>(*config.train.steps) * static_cast<double>(config.batch.tokens);
  if (config.train.epochs) return *config.train.epochs * text_tokens;
  return static_cast<double>(config.train.tokens.value_or(0));
}

double count_evaluations(const Config& config, const PreparedData& data) {
  const double tokens = run_tokens(config, static_cast<double>(data.train_tokens));
  const auto tokens_per_step = static_cast<double>(config.batch.tokens);
  const double steps = tokens / tokens_per_step;
  const bool counts_steps = config.train.steps.has_value();
  const RunClock run = {.total = counts_steps ? steps : tokens,
                        .counts_steps = counts_steps,
                        .tokens_per_step = tokens_per_step,
                        .tokens_per_epoch = static_cast<double>(data.train_tokens)};
  // The last step has the evaluation of the end.
  const RunClock before_last = run.after(steps - 1, tokens - tokens_per_step);
  const TrainingDuration& every = config.eval.every;
  const bool by_the_clock = every.value > 0 && every.unit == TrainingDuration::Unit::kSeconds;
  const double middles = by_the_clock ? kMiddlesByTheClock : before_last.completed(every);
  const double steps_between = std::max(0.0, std::floor(steps + 1e-9) - 1);
  return 2 + std::clamp(middles, 0.0, steps_between);
}

void resolve_eval_tokens(Config& config, const PreparedData& data) {
  if (config.eval.tokens) return;
  const double affordable = kMostEvalShare *
                            run_tokens(config, static_cast<double>(data.train_tokens)) /
                            (count_evaluations(config, data) * token_cost(config));
  config.eval.tokens = static_cast<int64_t>(std::clamp(
      affordable, static_cast<double>(kLeastEvalTokens), static_cast<double>(kMostEvalTokens)));
}

double evaluation_cost(const Config& config, int64_t targets) {
  return static_cast<double>(targets) * token_cost(config);
}

double evaluation_share(const Config& config, const PreparedData& data, int64_t targets) {
  const double cost = count_evaluations(config, data) * evaluation_cost(config, targets);
  return cost / (cost + run_tokens(config, static_cast<double>(data.train_tokens)));
}

}  // namespace lmtrain
