// After each step due_after() decides what is due: a line of progress that stays, an evaluation, a
// checkpoint, the end. It is a pure function of the run's clock before and after the step, and of
// what may end the run. The trainer carries out what is due. Also here: when checkpoints are saved,
// what a run remembers of its evaluations, and how it ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "schedule/lr_schedule.h"
#include "schedule/run_clock.h"

namespace lmtrain {

// A SaveSchedule says when a run saves a checkpoint, and which checkpoints are never removed. It is
// a pure function of the run's clock before and after a step. The trainer asks it after each step;
// the plan of a run counts checkpoints by it.
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
  // Returns whether the checkpoint after this step is never removed: keep_every is due, or the step
  // reaches the beginning of a wsd schedule's decay, from which another run can go on.
  bool kept(const RunClock& before, const RunClock& after) const;

 private:
  bool decay_begins_between(const RunClock& before, const RunClock& after) const;

  Cadence every_, keep_every_;
  std::optional<double> decay_begins_;  // in the unit of the run
};

// The rules of a run: when something is due, and when the run ends.
struct DueRules {
  Cadence log, evaluate;
  SaveSchedule save;
  std::optional<int64_t> num_batches;  // set: the run (in epochs) ends after these; else by clock
  std::optional<double> trial_end;     // a trial (random restart) ends here, in the run's unit
  std::optional<double> max_seconds;   // train.max_time
  std::optional<int64_t> patience;     // eval.early_stop.patience
};

// A RunMoment says how far the run has come, and what asks it to stop.
struct RunMoment {
  RunClock clock;
  int64_t next_batch = 0;  // in the order of data
  double seconds = 0;      // since this process began with the run
  bool signalled = false;  // a signal has asked to stop, or TrainingOptions::last_step is reached
  // EvaluationHistory::without_gain, if this step has evaluated; else 0.
  int64_t without_gain = 0;
};

// The reason why no step follows. If several reasons hold, the first in this list counts.
enum class Stop { kNone, kFinished, kTrialEnd, kEarlyStop, kSignal, kMaxTime };

// Returns whether the run has come to its end, also to an early one.
constexpr bool ends_run(Stop stop) { return stop == Stop::kFinished || stop == Stop::kEarlyStop; }
// Returns whether nothing interrupted the run or trial before its end, which may be an early stop.
constexpr bool has_all_steps(Stop stop) { return ends_run(stop) || stop == Stop::kTrialEnd; }

// What to do after a step, in the order of the members. With kFinished `evaluate` and `save` are
// false: the trainer evaluates and saves at the end anyway, and `keep` is about that checkpoint. In
// all other cases `keep` implies `save`.
struct Due {
  bool log = false;       // the line of this step stays on the screen
  bool evaluate = false;  // on the held-out text
  bool keep = false;      // a checkpoint of this step is never removed
  bool save = false;      // a checkpoint
  Stop stop = Stop::kNone;
};

// Returns what is due after the step that leads from `before` to `now`. Before the first step pass
// now.clock as `before`: only `stop` can be set then.
Due due_after(const DueRules& rules, const RunClock& before, const RunMoment& now);

// A RunEnd tells how a run ended without an error: with which exit code, and why.
struct RunEnd {
  bool done = false;
  std::string reason;  // "done", "early stop", "signal 15", "max_time"
  int exit_code = 0;   // 0, 128 + signal, or kExitMaxTime (base/error.h)
};

// Returns how a run ended that `why` stopped; `why` is not kNone. The run is done if
// has_all_steps() and `is_evaluated`: its last weights have been evaluated. Else `signal`, the
// number of a signal, stopped it; if that is 0, train.max_time did.
RunEnd run_end(Stop why, bool is_evaluated, int signal);

// An evaluation after `step` updates.
struct EvaluatedStep {
  int64_t step = 0;
  double loss = 0;
  bool operator==(const EvaluatedStep&) const = default;
};

// An EvaluationHistory is what a run remembers of its evaluations. `eval.early_stop` ends the run
// by it, and `checkpoint.keep_best` saves a checkpoint at a new lowest loss. It is part of the
// training state, so a resumed run decides as an uninterrupted one. Losses are in nats a target.
struct EvaluationHistory {
  std::optional<EvaluatedStep> lowest{};  // the first of equal losses; none: no finite one
  int64_t without_gain = 0;               // evaluations since the last gain
  // Evaluations that came after the checkpoint of their step was saved, so that it may not hold
  // their loss. A signal had put them off, a trial ended, or the run was made shorter.
  std::vector<EvaluatedStep> after_save{};
  bool operator==(const EvaluationHistory&) const = default;
};

// Adds an evaluation. It is a gain if its loss is finite, and is the first or below the lowest by
// more than eval.early_stop.min_delta (0 without early_stop). `saved`: the checkpoint of its step
// was saved before the evaluation.
void note_evaluation(EvaluationHistory& history, const EvaluatedStep& evaluated,
                     const EvalConfig& config, bool saved);

// Returns whether the run has its lowest loss at this step.
inline bool is_lowest(const EvaluationHistory& history, int64_t step) {
  return history.lowest && history.lowest->step == step;
}

}  // namespace lmtrain
