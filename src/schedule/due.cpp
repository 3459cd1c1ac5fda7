#include "schedule/due.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

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

RunEnd run_end(Stop why, bool is_evaluated, int signal) {
  if (has_all_steps(why) && is_evaluated)
    return {/*done=*/true, why == Stop::kEarlyStop ? "early stop" : "done", 0};
  if (signal != 0) return {/*done=*/false, str("signal ", signal), 128 + signal};
  return {/*done=*/false, "max_time", kExitMaxTime};
}

void note_evaluation(EvaluationHistory& history, const EvaluatedStep& evaluated,
                     const EvalConfig& config, bool saved) {
  ++history.without_gain;
  if (!std::isfinite(evaluated.loss)) return;
  if (saved) history.after_save.push_back(evaluated);
  const double min_delta = config.early_stop ? config.early_stop->min_delta : 0;
  std::optional<EvaluatedStep>& lowest = history.lowest;
  if (!lowest || lowest->loss - evaluated.loss > min_delta) history.without_gain = 0;
  if (!lowest || evaluated.loss < lowest->loss) lowest = evaluated;
}

}  // namespace lmtrain
