#include "train/eval_share.h"

#include <algorithm>
#include <cmath>

namespace lmtrain {
namespace {

constexpr double kMiddlesByTheClock = 19;

// Targets of the whole run; positions where steps are given.
double run_tokens(const Config& config, const PreparedData& data) {
  if (config.train.steps)
    return static_cast<double>(*config.train.steps) * static_cast<double>(config.batch.tokens);
  if (config.train.epochs) return *config.train.epochs * static_cast<double>(data.train_tokens);
  return static_cast<double>(*config.train.tokens);
}

double token_cost(const Config& config) {
  return (config.precision == PrecisionSetting::kFp32 ? 1.0 : kFp32Factor) / 3;
}

}  // namespace

double count_evaluations(const Config& config, const PreparedData& data) {
  const double tokens = run_tokens(config, data);
  const double step = static_cast<double>(config.batch.tokens) / tokens;  // part of the run
  const TrainingDuration& every = config.eval.every;
  double middles = 0;
  if (every.value > 0) {
    switch (every.unit) {
      case TrainingDuration::Unit::kSteps:
        middles = (1 - step) / (every.value * step);
        break;
      case TrainingDuration::Unit::kTokens:
        middles = (1 - step) * tokens / every.value;
        break;
      case TrainingDuration::Unit::kPercent:
        middles = (1 - step) * 100 / every.value;
        break;
      case TrainingDuration::Unit::kEpochs:
        middles = (1 - step) * tokens / (every.value * static_cast<double>(data.train_tokens));
        break;
      case TrainingDuration::Unit::kSeconds:
        middles = kMiddlesByTheClock;
        break;
    }
  }
  const double steps_between = std::max(0.0, std::floor(1 / step + 1e-9) - 1);
  return 2 + std::clamp(std::floor(middles + 1e-9), 0.0, steps_between);
}

void resolve_eval_tokens(Config& config, const PreparedData& data) {
  if (config.eval.tokens) return;
  const double affordable = kMostEvalShare * run_tokens(config, data) /
                            (count_evaluations(config, data) * token_cost(config));
  config.eval.tokens = static_cast<int64_t>(std::clamp(
      affordable, static_cast<double>(kLeastEvalTokens), static_cast<double>(kMostEvalTokens)));
}

double evaluation_cost(const Config& config, int64_t targets) {
  return static_cast<double>(targets) * token_cost(config);
}

double evaluation_share(const Config& config, const PreparedData& data, int64_t targets) {
  const double cost = count_evaluations(config, data) * evaluation_cost(config, targets);
  return cost / (cost + run_tokens(config, data));
}

}  // namespace lmtrain
