// A SaveSchedule says when a run saves a checkpoint, and which checkpoints are never removed. It is
// a pure function of the run's clock before and after a step. The trainer asks it after each step;
// the plan of a run counts checkpoints by it.
#pragma once

#include <optional>

#include "config/config.h"
#include "schedule/cadence.h"
#include "schedule/lr_schedule.h"

namespace lmtrain {

class SaveSchedule {
 public:
  SaveSchedule() = default;  // never
  // `lr` is the learning rate's schedule in the same run. Of `config` it reads checkpoint.every,
  // checkpoint.keep_every and lr_schedule.type.
  SaveSchedule(const Config& config, const LrSchedule& lr);

  // Returns whether a checkpoint is due after the step that leads from `before` to `after`: by
  // checkpoint.every, or because kept() is true.
  bool due(const RunClock& before, const RunClock& after) const;
  // Estimates the number of checkpoints that are due between the two clocks. It is the larger of
  // the numbers by `every` and by `keep_every`, plus one if the decay of wsd begins between them.
  double estimate(const RunClock& before, const RunClock& after) const;
  // Returns whether the checkpoint after this step is never removed. It is kept if keep_every is
  // due, or if the step reaches the beginning of a wsd schedule's decay. From that checkpoint, the
  // end of the plateau, a longer run or another decay can begin.
  bool kept(const RunClock& before, const RunClock& after) const;

 private:
  bool decay_begins_between(const RunClock& before, const RunClock& after) const;

  Cadence every_, keep_every_;
  std::optional<double> decay_begins_;  // in the unit of the run
};

}  // namespace lmtrain
