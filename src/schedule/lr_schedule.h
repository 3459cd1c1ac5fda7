// The learning rate is a pure function of progress t (docs/schedules.md has the formulas). The
// warm-up is peak·(s + (1-s)·w(t/W)) for t < W, with s = `warmup_start` and w the `warmup_shape`,
// which rises from 0 to 1. A decay from peak to min_ratio·peak follows, except for `constant`. t, W
// and the run's length are in the unit of the run (run_clock.h). Past the end the last rate stays.
#pragma once

#include "config/config.h"
#include "schedule/run_clock.h"

namespace lmtrain {

class LrSchedule {
 public:
  // `peak` is the highest rate. Only the length of `run` matters, not how far it has come. Throws
  // Error(kConfig) for a warm-up or decay given as a duration of time.
  LrSchedule(const LrScheduleConfig& config, double peak, const RunClock& run);

  // Returns the rate of the step that begins when RunClock::done() is `done`.
  double at(double done) const;
  // Returns how long the warm-up is, in the unit of the run.
  double warmup() const { return warmup_; }
  // Returns the progress at which the rate begins to fall, in the unit of the run: warmup(), later
  // for wsd, the end of the run for constant.
  double decay_begin() const { return decay_begin_; }

 private:
  DecayShape shape_;
  WarmupShape warmup_shape_;
  double peak_;
  double floor_;
  double warmup_start_;
  double total_;
  double warmup_;
  double decay_begin_;
};

// These warm up AdEMAMix's alpha and beta3. `done` and `over`, the length of the warm-up, are both
// in steps or both in tokens. From `over` on the result is `end`.
//
// linear_warmup() goes from `begin` to `end` along a line.
double linear_warmup(double begin, double end, double done, double over);

// Returns the decay rate of a moving average whose half-life goes along a line (Pagliardini et al.,
// 2409.03137, appendix A.1). The line begins at the half-life of the rate `begin` and ends at the
// half-life of the rate `end`. Rates near 1 are reached late. Rates are in [0, 1).
double half_life_warmup(double begin, double end, double done, double over);

}  // namespace lmtrain
