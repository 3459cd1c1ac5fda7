#include "schedule/run_clock.h"

#include <cmath>

#include "base/error.h"

namespace lmtrain {
namespace {

using Unit = TrainingDuration::Unit;

[[noreturn]] void unknown_unit() {
  throw Error(ErrorKind::kInternal, "a duration has a unit that no run counts");
}

// How many durations of `every`, which is above 0, have passed.
double passed(const RunClock& run, const TrainingDuration& every) {
  switch (every.unit) {
    case Unit::kSteps:
      return run.steps / every.value;
    case Unit::kTokens:
      return run.tokens / every.value;
    case Unit::kPercent:
      return run.percent() / every.value;
    case Unit::kSeconds:
      return run.seconds / every.value;
    case Unit::kEpochs:
      return run.tokens / (every.value * run.tokens_per_epoch);
  }
  unknown_unit();
}

}  // namespace

double RunClock::done() const {
  if (!change) return counts_steps ? steps : tokens;
  // Exactly `total` at the end.
  return total - (total - change->done) * left() / (change->end - change->tokens);
}

RunClock RunClock::after(double more_steps, double more_tokens, double more_seconds) const {
  RunClock later = *this;
  later.steps += more_steps;
  later.tokens += more_tokens;
  later.seconds += more_seconds;
  return later;
}

double RunClock::resolve(const TrainingDuration& duration) const {
  const auto of_tokens = [&](double count) {
    return counts_steps ? count / tokens_per_step : count;
  };
  switch (duration.unit) {
    case Unit::kSteps:
      return counts_steps ? duration.value : duration.value * tokens_per_step;
    case Unit::kTokens:
      return of_tokens(duration.value);
    case Unit::kPercent:
      return duration.value * total / 100;
    case Unit::kEpochs:
      return of_tokens(duration.value * tokens_per_epoch);
    case Unit::kSeconds:
      throw Error(
          ErrorKind::kConfig,
          "a duration of time has no fixed position in a run; give it in steps, tokens or percent");
  }
  unknown_unit();
}

double RunClock::completed(const TrainingDuration& every) const {
  if (every.value <= 0) return 0;
  // Percentages come from divisions: 15 of 100 steps may read as 14.999999999999998 %, which is the
  // third 5 % all the same.
  return std::floor(passed(*this, every) + 1e-9);
}

}  // namespace lmtrain
