// The learning rate as a pure function of progress. Formulas: docs/schedules.md, which is the
// contract's: warm-up of W: peak·(s + (1-s)·w(t/W)) for t < W; then a decay from peak to the floor
// m = min_ratio·peak over the rest. t, T and W are in one unit: tokens, or steps where
// `train.steps` is given. Past the end the last value holds.
#pragma once

#include "config/config.h"

namespace lmtrain {

class LrSchedule {
 public:
  // `total`, and the durations' own units resolved to it: steps are `tokens_per_step` tokens when
  // counting in tokens. Error(kConfig) for a duration of time.
  LrSchedule(const LrScheduleConfig& config, double peak, double total, bool counts_steps,
             double tokens_per_step);

  // The rate of the step that begins after `progress` of `total`.
  double at(double progress) const;
  double warmup() const { return warmup_; }
  // Where the rate begins to fall: `warmup()`, later for wsd, the end for constant.
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
