#include "schedule/due.h"

namespace lmtrain {
namespace {

Stop stop_at(const DueRules& rules, const RunMoment& now) {
  const bool finished = rules.num_batches ? now.next_batch >= *rules.num_batches
                                          : now.clock.done() >= now.clock.total;
  if (finished) return Stop::kFinished;
  if (rules.trial_end && now.clock.done() >= *rules.trial_end) return Stop::kTrialEnd;
  if (rules.patience && now.without_gain >= *rules.patience) return Stop::kEarlyStop;
  if (now.signalled) return Stop::kSignal;
  if (rules.max_seconds && now.seconds >= *rules.max_seconds) return Stop::kMaxTime;
  return Stop::kNone;
}

}  // namespace

Due due_after(const DueRules& rules, const RunClock& before, const RunMoment& now) {
  Due due;
  due.stop = stop_at(rules, now);
  const bool finished = due.stop == Stop::kFinished;
  due.log = rules.log.due(before, now.clock);
  due.evaluate = !finished && rules.evaluate.due(before, now.clock);
  due.keep = rules.save.kept(before, now.clock);
  due.save = !finished && rules.save.due(before, now.clock);
  return due;
}

}  // namespace lmtrain
