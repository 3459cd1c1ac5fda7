#include "schedule/save_schedule.h"

#include <algorithm>

namespace lmtrain {

SaveSchedule::SaveSchedule(const Config& config, const LrSchedule& lr, double tokens_per_epoch)
    : every_(epochs_in_tokens(config.checkpoint.every, tokens_per_epoch)),
      counts_steps_(config.train.steps.has_value()) {
  if (config.checkpoint.keep_every)
    keep_every_ = Cadence(epochs_in_tokens(*config.checkpoint.keep_every, tokens_per_epoch));
  if (config.lr_schedule.type == LrScheduleType::kWsd) decay_begins_ = lr.decay_begin();
}

bool SaveSchedule::due(const Progress& before, const Progress& after) const {
  return every_.due(before, after) || kept(before, after);
}

bool SaveSchedule::kept(const Progress& before, const Progress& after) const {
  return keep_every_.due(before, after) || decay_begins_between(before, after);
}

double SaveSchedule::estimate(const Progress& before, const Progress& after) const {
  return std::max(every_.multiples(before, after), keep_every_.multiples(before, after)) +
         (decay_begins_between(before, after) ? 1 : 0);
}

bool SaveSchedule::decay_begins_between(const Progress& before, const Progress& after) const {
  if (!decay_begins_) return false;
  const auto done = [&](const Progress& at) { return counts_steps_ ? at.steps : at.tokens; };
  return done(before) < *decay_begins_ && *decay_begins_ <= done(after);
}

}  // namespace lmtrain
