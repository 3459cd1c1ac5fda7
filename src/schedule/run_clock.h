// A RunClock says how long a run is and how far it has come. Learning rates, betas, caps,
// evaluations and checkpoints are functions of it alone, and it converts durations ("500 steps",
// "10M" tokens, "2%", "3 epochs") to numbers. It is a plain value: nothing in it advances by
// itself.
//
// A run counts either steps or tokens: steps where `train.steps` is given, else tokens. That is
// "the unit of the run". Tokens are targets.
#pragma once

#include <optional>

#include "config/config.h"

namespace lmtrain {

struct RunClock {
  // These say how long the run is. `total` is the length of its schedules, in the unit of the run:
  // the length in the config. If train.time has changed the length on the way, `total` is the
  // length before the first of these changes.
  double total = 0;
  bool counts_steps = true;
  double tokens_per_step = 1;   // converts a duration from steps to tokens, and back
  double tokens_per_epoch = 0;  // may be 0 where no duration is in epochs

  // Set if the run counts tokens and has changed its length on its way (Replan::pace): since
  // `tokens` done() rises along a line from `done` to `total`, which it reaches at the token `end`.
  struct Change {
    double tokens, done, end;
  };
  std::optional<Change> change = {};

  // These say how far it has come since its first step.
  double steps = 0;
  double tokens = 0;
  double seconds = 0;  // time of training, over all resumes

  // Returns how far the run has come on its schedules, in the unit of the run: its steps or tokens;
  // after a `change` the tokens that a run of length `total` would have by now.
  double done() const;
  // Returns how many steps or tokens, in the unit of the run, are still to come.
  double left() const { return change ? change->end - tokens : total - done(); }
  // Returns done() in percent of `total`, which must not be 0. It is above 100 past the end.
  double percent() const { return 100 * done() / total; }
  // Returns the clock of the same run, later by these steps, tokens and seconds.
  RunClock after(double more_steps, double more_tokens, double more_seconds = 0) const;

  // Returns `duration` in the unit of the run. Throws Error(kConfig) for a duration of time, which
  // has no fixed position in a run.
  double resolve(const TrainingDuration& duration) const;
  // Returns how many whole durations `every` have passed since the first step: 2 after 25 steps,
  // for "10 steps"; 0 if `every` is 0. The unit of `every` says what is measured: the member
  // `steps`, `tokens` or `seconds`, `tokens` for epochs, and done() for percent.
  double completed(const TrainingDuration& every) const;
};

// A Cadence says on which steps something is due that happens "every" duration (checkpoint,
// evaluation, log line). It holds no state: the answer is a function of the run's clock before and
// after the step, so a resumed run acts on the same steps as one that was never interrupted. Only
// durations of time depend on how fast the machine is.
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
