// Units of a run's durations, see duration.h.
#include "schedule/duration.h"

#include <cmath>

#include "base/error.h"

namespace lmtrain {
namespace {

double in_unit(const Progress& progress, TrainingDuration::Unit unit) {
  switch (unit) {
    case TrainingDuration::Unit::kSteps:
      return progress.steps;
    case TrainingDuration::Unit::kTokens:
      return progress.tokens;
    case TrainingDuration::Unit::kPercent:
      return progress.percent;
    case TrainingDuration::Unit::kSeconds:
      return progress.seconds;
    case TrainingDuration::Unit::kEpochs:
      break;
  }
  throw Error(ErrorKind::kInternal, "a duration has a unit that does not count steps of a run");
}

// Percentages come from divisions: 15 of 100 steps may read as 14.999999999999998 %, which is the
// third 5 % all the same.
double num_completed(double progress, double every) { return std::floor(progress / every + 1e-9); }

}  // namespace

double resolve_duration(const TrainingDuration& duration, double total, bool counts_steps,
                        double tokens_per_step) {
  switch (duration.unit) {
    case TrainingDuration::Unit::kSteps:
      return counts_steps ? duration.value : duration.value * tokens_per_step;
    case TrainingDuration::Unit::kTokens:
      return counts_steps ? duration.value / tokens_per_step : duration.value;
    case TrainingDuration::Unit::kPercent:
      return duration.value * total / 100;
    case TrainingDuration::Unit::kSeconds:
      throw Error(
          ErrorKind::kConfig,
          "a duration of time has no fixed place in a run; give it in steps, tokens or percent");
    case TrainingDuration::Unit::kEpochs:
      break;
  }
  throw Error(ErrorKind::kInternal, "a duration has a unit that does not count steps of a run");
}

TrainingDuration epochs_in_tokens(const TrainingDuration& duration, double tokens_per_epoch) {
  if (duration.unit != TrainingDuration::Unit::kEpochs) return duration;
  return {duration.value * tokens_per_epoch, TrainingDuration::Unit::kTokens};
}

double Cadence::multiples(const Progress& before, const Progress& after) const {
  if (every_.value <= 0) return 0;
  return num_completed(in_unit(after, every_.unit), every_.value) -
         num_completed(in_unit(before, every_.unit), every_.value);
}

bool Cadence::due(const Progress& before, const Progress& after) const {
  return multiples(before, after) > 0;
}

}  // namespace lmtrain
