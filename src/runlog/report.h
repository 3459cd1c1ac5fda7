// Makes texts about a run for people: what it will do, the line of a step, how it ended.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "batching/batch_order.h"
#include "checkpoint/state.h"
#include "config/config.h"
#include "eval/evaluate.h"
#include "eval/task_result.h"
#include "prepare/prepare.h"
#include "schedule/due.h"

namespace lmtrain {

// Returns lines to show before a run: model, device, batches, sources, steps, evaluations. `config`
// is resolved, `order` is the run's order of `data`, `folder` the run folder. `eval_targets` is the
// number of targets of an evaluation; nothing without held-out text. `ended` is the state of a run
// that is resumed though no step follows, and null for every other run.
std::string run_summary(const Config& config, const PreparedData& data, const BatchOrder& order,
                        std::optional<int64_t> eval_targets, const std::filesystem::path& folder,
                        const TrainingState* ended = nullptr);

struct StepReport {
  int64_t step = 0;
  int64_t steps = 0;  // of the whole run, as planned
  double share = 0;   // how much of the run is done, from 0 to 1
  double loss = 0, lr = 0;
  int64_t length = 0;
  double tokens_per_second = 0;
  double elapsed = 0, left = 0;  // seconds
};

// Returns the line of a step in parts: "step 120/2450  4.9%  loss 5.1234  lr 2.95e-03  length 256
// 31.8K tokens/s  43s elapsed  14m05s left". On a narrow terminal parts are left out in this order:
// elapsed, length, lr, tokens/s, share, loss.
std::vector<LinePart> step_line(const StepReport& report);

// Returns the figures of an evaluation after `step`: a line for all held-out text, and one for each
// of the first kMostSetsShown sets.
std::string evaluation_note(int64_t step, const Evaluation& evaluation);
inline constexpr size_t kMostSetsShown = 12;

struct EndReport {
  int64_t steps = 0, tokens = 0;
  std::optional<double> loss;
  std::optional<EvaluatedStep> last, best;     // the last evaluation, and the lowest loss
  double training = 0, evaluating = 0;         // seconds of this process
  double saving = 0, elapsed = 0;              // seconds of this process; elapsed: in all
  std::optional<std::filesystem::path> saved;  // the newest checkpoint
  // The present checkpoint with the lowest held-out loss, which other commands take if they get the
  // run folder; nothing: no evaluation tells.
  std::optional<EvaluatedStep> best_checkpoint;
  std::filesystem::path best_path;
  int64_t saved_step = 0;  // of the newest checkpoint
  std::string early_stop;  // early_stop_reason(); empty: the run did not end early
};

// Returns the lines of the end: steps, tokens and time; losses; why it ended early; the
// checkpoints.
std::string end_summary(const EndReport& report);
// Returns the accuracies of tasks in one line, and their centred mean (eval/task_result.h).
std::string task_line(const std::vector<TaskResult>& tasks);
// Returns why eval.early_stop ends the run in this state. Requires eval.early_stop.
std::string early_stop_reason(const Config& config, const TrainingState& state);
// Returns a line for people that names the best checkpoint; empty if it is the newest one.
std::string best_note(const EndReport& report);
// Returns the commands that a person may want next for the finished run in `folder`: `eval` if
// there is held-out text, `generate`, and a command that trains further. `best_note` stands before
// them. The last command depends on the run:
//   it `ended_early`               goes on with this run
//   its learning rate is constant  makes this run longer
//   any other schedule             begins a new run from these weights, since the rate would jump
std::string next_commands(const std::filesystem::path& folder, const Config& config,
                          bool has_held_out, bool ended_early, const std::string& best_note = "");

}  // namespace lmtrain
