// After each step due_after() decides what is due: a line of progress that stays, an evaluation, a
// checkpoint, the end. It is a pure function of the run's clock before and after the step, and of
// what may end the run. The trainer carries out what is due.
#pragma once

#include <cstdint>
#include <optional>

#include "schedule/cadence.h"
#include "schedule/run_clock.h"
#include "schedule/save_schedule.h"

namespace lmtrain {

// The rules of a run: when something is due, and when the run ends.
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
  // The number of evaluations in a row without a gain (schedule/evaluation_history.h), if this step
  // has evaluated; else 0.
  int64_t without_gain = 0;
};

// The reason why no step follows. The first of several reasons counts.
enum class Stop { kNone, kFinished, kTrialEnd, kEarlyStop, kSignal, kMaxTime };

// Returns whether the run has come to its end, also to an early one.
constexpr bool ends_run(Stop stop) { return stop == Stop::kFinished || stop == Stop::kEarlyStop; }
// Returns whether the run, or the trial, has made all its steps without an interruption.
constexpr bool has_all_steps(Stop stop) { return ends_run(stop) || stop == Stop::kTrialEnd; }

// The members are in the order in which they are carried out. With kFinished `evaluate` and `save`
// are false, since the trainer evaluates and saves at the end in any case; `keep` then holds for
// the checkpoint at the end. In all other cases `keep` implies `save`, also after the last step of
// a trial.
struct Due {
  bool log = false;       // the line of this step stays on the screen
  bool evaluate = false;  // on the held-out text
  bool keep = false;      // a checkpoint of this step is never removed
  bool save = false;      // a checkpoint
  Stop stop = Stop::kNone;
};

// `before` is the clock before the step that led to `now`. Before the first step pass now.clock:
// only `stop` can be set then.
Due due_after(const DueRules& rules, const RunClock& before, const RunMoment& now);

}  // namespace lmtrain
