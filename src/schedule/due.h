// The things that are due after a step: the progress line stays, an evaluation, a checkpoint, the
// end. It is decided here alone, by a pure function of the run's clock before and after the step
// and of what may end the run; the trainer carries it out.
#pragma once

#include <cstdint>
#include <optional>

#include "schedule/cadence.h"
#include "schedule/run_clock.h"
#include "schedule/save_schedule.h"

namespace lmtrain {

// When things fall due in a run, and when it ends.
struct DueRules {
  Cadence log, evaluate;
  SaveSchedule save;
  std::optional<int64_t> num_batches;  // a run of whole epochs ends after so many; none: by clock
  std::optional<double> trial_end;     // a trial ends here, in the unit of the run
  std::optional<double> max_seconds;   // train.max_time
};

// Where the run stands, and what asks it to stop.
struct RunMoment {
  RunClock clock;
  int64_t next_batch = 0;  // in the order of data
  double seconds = 0;      // of this process, since it began with the run
  bool signalled = false;  // a signal has asked to stop
};

// Why no step follows; where several hold, the first in this order.
enum class Stop { kNone, kFinished, kTrialEnd, kSignal, kMaxTime };

// Whether the run, or the trial, has all its steps: nothing has interrupted it.
constexpr bool has_all_steps(Stop stop) {
  return stop == Stop::kFinished || stop == Stop::kTrialEnd;
}

// In the order in which it is carried out. After the last step of a run neither evaluation nor
// checkpoint is due by the clock: both come at the end, whatever the settings.
struct Due {
  bool log = false;       // the line of this step stays on the screen
  bool evaluate = false;  // on the held-out text
  bool keep = false;      // a checkpoint of this step is never removed
  bool save = false;      // a checkpoint
  Stop stop = Stop::kNone;
};

// `before`: the clock before the step that led to `now`. With before == now.clock, as before the
// first step, only `stop` can say anything.
Due due_after(const DueRules& rules, const RunClock& before, const RunMoment& now);

}  // namespace lmtrain
