// After each step due_after() decides what is due: that the progress line stays, an evaluation, a
// checkpoint, the end. It is a pure function of the run's clock before and after the step and of
// what may end the run; the trainer carries it out.
#pragma once

#include <cstdint>
#include <optional>

#include "schedule/cadence.h"
#include "schedule/run_clock.h"
#include "schedule/save_schedule.h"

namespace lmtrain {

// The rules by which things are due in a run, and by which it ends.
struct DueRules {
  Cadence log, evaluate;
  SaveSchedule save;
  std::optional<int64_t> num_batches;  // a run given in epochs ends after these; none: by clock
  std::optional<double> trial_end;     // a trial ends here, in the unit of the run
  std::optional<double> max_seconds;   // train.max_time
  std::optional<int64_t> patience;     // eval.early_stop.patience
};

// A RunMoment says how far the run has come, and what asks it to stop.
struct RunMoment {
  RunClock clock;
  int64_t next_batch = 0;  // in the order of data
  double seconds = 0;      // since this process began with the run
  bool signalled = false;  // a signal has asked to stop
  // This many evaluations in a row had no gain, the last of them at this step (schedule/
  // evaluation_history.h); 0: there was none at this step.
  int64_t without_gain = 0;
};

// The reason why no step follows; where there are several, it is the first in this order.
enum class Stop { kNone, kFinished, kTrialEnd, kEarlyStop, kSignal, kMaxTime };

// Returns whether the run has come to its end, be it an early one.
constexpr bool ends_run(Stop stop) { return stop == Stop::kFinished || stop == Stop::kEarlyStop; }
// Returns whether the run, or the trial, has all its steps: nothing has interrupted it.
constexpr bool has_all_steps(Stop stop) { return ends_run(stop) || stop == Stop::kTrialEnd; }

// The members are in the order in which they are carried out. With kFinished `evaluate` and `save`
// are false: the trainer evaluates and saves at the end in any case, and `keep` holds for that
// checkpoint. Otherwise, also after the last step of a trial, `keep` implies `save`.
struct Due {
  bool log = false;       // the line of this step stays on the screen
  bool evaluate = false;  // on the held-out text
  bool keep = false;      // a checkpoint of this step is never removed
  bool save = false;      // a checkpoint
  Stop stop = Stop::kNone;
};

// `before` is the clock before the step that led to `now`. Before the first step it is now.clock;
// then only `stop` can be set.
Due due_after(const DueRules& rules, const RunClock& before, const RunMoment& now);

}  // namespace lmtrain
