// When a run saves a checkpoint, and which of them are never removed: a pure function of the
// run's clock before and after a step. The run asks it step by step, the plan counts with it.
#pragma once

#include <optional>

#include "config/config.h"
#include "schedule/cadence.h"
#include "schedule/lr_schedule.h"

namespace lmtrain {

class SaveSchedule {
 public:
  SaveSchedule() = default;  // never
  // `lr` is the learning rate's schedule in the same run.
  SaveSchedule(const Config& config, const LrSchedule& lr);

  // Whether a checkpoint falls due on the step that leads from `before` to `after`.
  bool due(const RunClock& before, const RunClock& after) const;
  // About how many fall due between the two: where every and keep_every meet, one checkpoint serves
  // both, so the more frequent of the two is counted, and one for the decay of wsd.
  double estimate(const RunClock& before, const RunClock& after) const;
  // Whether it is never removed: keep_every falls due, or the decay of a wsd schedule begins behind
  // it, so that it is the last of the plateau, from which a longer run or another decay can begin.
  bool kept(const RunClock& before, const RunClock& after) const;

 private:
  bool decay_begins_between(const RunClock& before, const RunClock& after) const;

  Cadence every_, keep_every_;
  std::optional<double> decay_begins_;  // in the unit of the run
};

}  // namespace lmtrain
