// The learning rate as a pure function of progress. Formulas: docs/schedules.md, which is the
// contract's: warm-up of W: peak·(s + (1-s)·w(t/W)) for t < W; then a decay from peak to the floor
// m = min_ratio·peak over the rest. t, T and W are in the unit of the run (run_clock.h). Past the
// end the last value holds.
#pragma once

#include "config/config.h"
#include "schedule/run_clock.h"

namespace lmtrain {

class LrSchedule {
 public:
  // How far `run` has come does not matter, only how long it is. Error(kConfig) for a duration
  // of time.
  LrSchedule(const LrScheduleConfig& config, double peak, const RunClock& run);

  // The rate of the step that begins when so much of the run is done, in the unit of the run.
  double at(double done) const;
  // How long the warm-up is, in the unit of the run.
  double warmup() const { return warmup_; }
  // Where the rate begins to fall, in the unit of the run: `warmup()`, later for wsd, the end for
  // constant.
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

}  // namespace lmtrain
