// A Cadence says on which steps something is due that happens "every" duration (checkpoint,
// evaluation, log line). It holds no state: the answer is a function of the run's clock before and
// after the step, so a resumed run acts on the same steps as one that was never interrupted. Only
// durations of time depend on how fast the machine is.
#pragma once

#include "config/config.h"
#include "schedule/run_clock.h"

namespace lmtrain {

class Cadence {
 public:
  Cadence() = default;  // never due
  explicit Cadence(const TrainingDuration& every) : every_(every) {}

  // Returns whether a multiple of the duration is in (before, after], two clocks of one run. False
  // when the duration is 0.
  bool due(const RunClock& before, const RunClock& after) const {
    return multiples(before, after) > 0;
  }
  // Returns how many multiples of the duration are in (before, after], a whole number.
  double multiples(const RunClock& before, const RunClock& after) const {
    return after.completed(every_) - before.completed(every_);
  }

 private:
  TrainingDuration every_;
};

}  // namespace lmtrain
