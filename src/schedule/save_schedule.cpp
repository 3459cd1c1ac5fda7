#include "schedule/save_schedule.h"

#include <algorithm>

namespace lmtrain {

SaveSchedule::SaveSchedule(const Config& config, const LrSchedule& lr)
    : every_(config.checkpoint.every) {
  if (config.checkpoint.keep_every) keep_every_ = Cadence(*config.checkpoint.keep_every);
  if (config.lr_schedule.type == LrScheduleType::kWsd) decay_begins_ = lr.decay_begin();
}

bool SaveSchedule::due(const RunClock& before, const RunClock& after) const {
  return every_.due(before, after) || kept(before, after);
}

bool SaveSchedule::kept(const RunClock& before, const RunClock& after) const {
  return keep_every_.due(before, after) || decay_begins_between(before, after);
}

double SaveSchedule::estimate(const RunClock& before, const RunClock& after) const {
  return std::max(every_.multiples(before, after), keep_every_.multiples(before, after)) +
         (decay_begins_between(before, after) ? 1 : 0);
}

bool SaveSchedule::decay_begins_between(const RunClock& before, const RunClock& after) const {
  return decay_begins_ && before.done() < *decay_begins_ && *decay_begins_ <= after.done();
}

}  // namespace lmtrain
