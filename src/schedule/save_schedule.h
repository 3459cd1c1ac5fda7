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
  // `lr` is the learning rate's schedule in the same run. Reads checkpoint.every and keep_every,
  // and lr_schedule.type, of `config`.
  SaveSchedule(const Config& config, const LrSchedule& lr);

  // Returns whether a checkpoint is due after the step that leads from `before` to `after`: by
  // checkpoint.every, or because kept() is true.
  bool due(const RunClock& before, const RunClock& after) const;
  // Returns about how many checkpoints are due between the two clocks: as many as the more frequent
  // of `every` and `keep_every` gives, and one for the decay of wsd.
  double estimate(const RunClock& before, const RunClock& after) const;
  // Returns whether the checkpoint after this step is never removed: keep_every is due, or the step
  // is the one that reaches the beginning of a wsd schedule's decay. From that checkpoint, the end
  // of the plateau, a longer run or another decay can begin.
  bool kept(const RunClock& before, const RunClock& after) const;

 private:
  bool decay_begins_between(const RunClock& before, const RunClock& after) const;

  Cadence every_, keep_every_;
  std::optional<double> decay_begins_;  // in the unit of the run
};

}  // namespace lmtrain
