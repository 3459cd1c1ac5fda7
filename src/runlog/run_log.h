// Reports on a run. People get the progress line, notes, warnings and the summary at the end.
// Programs get metrics.jsonl, events.jsonl, status.json, TensorBoard and the file of
// log.prometheus. A run that is done gets its model cards (checkpoint/model_card.h). The log also
// estimates the time left. It decides nothing. On ranks after 0 every call does nothing and returns
// an empty text.
//
// begin() must come before all calls that write to the files, unless a function says otherwise.
// Only the trainer's thread may call it. Throws Error(kIo) when a file cannot be written.
//
// With checkpoint.on_save_error "continue", the log keeps lines, and a status "running", that the
// disk refuses, and writes them later (runlog/metrics.h). Even then sync() and ended() throw, and
// every write throws if the run folder is gone. docs/formats/run_folder.md lists the events.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/start_times.h"
#include "batching/batch.h"
#include "batching/batch_order.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/state.h"
#include "config/config.h"
#include "device/failure.h"
#include "distributed/step_consensus.h"
#include "eval/evaluate.h"
#include "eval/samples.h"
#include "eval/task_result.h"
#include "formats/expected_curve.h"
#include "model/parameters.h"
#include "optim/guard.h"
#include "runlog/metrics.h"
#include "runlog/prometheus.h"
#include "runlog/report.h"
#include "runlog/time_left.h"
#include "schedule/due.h"

namespace lmtrain {

// Holds the figures of an update that was applied.
struct AppliedStep {
  double loss = 0, grad_norm = 0, lr = 0;
  int64_t length = 0, targets = 0;          // tokens of a row; targets of the whole batch
  double seconds = 0;                       // of the step, waiting for data included
  std::optional<StepBalance> balance = {};  // set with several processes
};

// Tells what follows a step. The time left is estimated from it.
struct RunAhead {
  const BatchOrder& order;
  const DueRules& rules;
  RunClock before, now;  // the clock before and after the step
};

// Tells whether a run ends in time, evaluations and saves included.
struct TimeCheck {
  double late = 0;     // seconds too long; negative: it could train longer
  int64_t tokens = 0;  // still to train, for a run that just ends in time; 0: none
};

// Returns the fields of the events `start` and `resume` that name program, device and precision.
nlohmann::ordered_json start_fields(const Config& config);

class RunLog {
 public:
  // `config` is resolved. `eval_targets` is the number of targets of an evaluation; nothing without
  // held-out text. This process began the run at `started`. `num_processes` train it together, each
  // on its own device; this one is `rank`. Writes nothing yet.
  RunLog(const Config& config, const RunFolder& run, std::optional<int64_t> eval_targets,
         std::chrono::steady_clock::time_point started, int num_processes, int rank = 0);

  // The next three serve a run that was finished before, and need no begin().
  //
  // Returns the line of status.json if it says that the run is done at this step, with its
  // checkpoint in this folder. Otherwise returns an empty text: also when status.json is missing,
  // damaged or no file, and in a copied or moved run, whose status.json names the old folder.
  std::string done_status(const TrainingState& state) const;
  // Logs a note that the run was finished before, and the commands that may come next.
  void note_finished(const TrainingState& state, Stop why) const;
  // Cuts metrics.jsonl back to `state`, writes an event `resume` if settings were changed, and
  // writes the model cards. Returns `status`, the result of done_status(), unless it is empty. If
  // it is empty, writes status.json and returns its line, and writes an event `end` unless the run
  // was only copied.
  std::string finished_before(const TrainingState& state, Stop why, const std::string& status,
                              const nlohmann::ordered_json& changed_settings) const;

  // Calls put_metrics_aside() of metrics_check.h, warns with its text, if any, and returns the
  // text. Needs no begin().
  std::string put_metrics_aside() const;
  // Opens the logs, and cuts metrics.jsonl back to `state` (mend_metrics()). Call it again whenever
  // the run goes back to a checkpoint.
  void begin(const TrainingState& state);
  // Writes the event `resume` if `resumed`, else `start`, and status.json. `reason` is the result
  // of put_metrics_aside().
  void started(const TrainingState& state, bool resumed, const std::string& reason,
               const nlohmann::ordered_json& changed_settings);

  // Writes the event `first_step` with the seconds from the start of the program to the end of its
  // first step, phase by phase. Without phases does nothing.
  void first_step(const TrainingState& state, const StartTimes::Phases& phases);

  // The log counts time in laps: the time since begin_lap() belongs to the next reported update,
  // evaluation or save. Each of these reports begins the next lap.
  void begin_lap() { lap(); }
  // Adds the seconds that a step waited for data; they are part of its time.
  void add_wait(double seconds) { seconds_waited_ += seconds; }
  // Writes the metrics of an update and shows the progress line, which stays on the screen if
  // `keep_line`. `state` is the state after the step.
  void update(const TrainingState& state, const AppliedStep& step, const RunAhead& ahead,
              bool keep_line);
  // Writes the metrics of an evaluation, a note and status.json. `state` is the state after the
  // evaluation. `tasks` are the results of eval.tasks.
  void evaluated(const TrainingState& state, const Evaluation& evaluation,
                 const std::vector<TaskResult>& tasks);
  // Writes an event and a note of each sample.
  void sampled(const TrainingState& state, const std::vector<SampledText>& samples);
  // Compares the rest of the run with the `seconds` that it may take. The run must count tokens.
  // Returns nothing before its first steps, and in ranks other than 0.
  std::optional<TimeCheck> check_time(double seconds, const TrainingState& state,
                                      const RunAhead& ahead) const;
  // Counts the lap as time of a save: the training loop has handed over a checkpoint, or waited for
  // it.
  void add_save();

  // Writes an event and a note: the run has been planned anew for state.total.tokens, after a plan
  // for `was` tokens.
  void replanned(const TrainingState& state, int64_t was, const std::string& reason);
  // The next four write an event. All but spike() also warn.
  void reduced_micro_batch(const TrainingState& state, const MicroBatchReduction& lowered);
  void spike(const TrainingState& state, const RefusedBatch& refused, const std::string& reason);
  void skipped(const TrainingState& state, const RefusedBatch& refused, const std::string& reason);
  // The run went back from step `from_step` to `state`, which it loaded from the folder
  // `checkpoint`; nothing: the run begins again.
  void rolled_back(const TrainingState& state, const RefusedBatch& refused,
                   const std::string& reason, int64_t from_step,
                   const std::optional<std::filesystem::path>& checkpoint);
  // These two only warn.
  void no_held_out_text() const;
  void eval_loss_not_finite(const TrainingState& state) const;
  // Writes an event.
  void signalled(const TrainingState& state, int signal);

  // Returns when all metrics are on disk, so that a checkpoint can rely on them.
  void sync();
  // Writes the event of a published checkpoint, whose writing took `seconds`.
  void saved(const TrainingState& saved, double seconds);
  // Writes an event, and warns if the run `goes_on`. `lost` is the state that was not saved.
  void save_failed(const TrainingState& lost, const std::string& reason, bool goes_on);

  // Writes status.json with the state "running".
  void running(const TrainingState& state);
  // Calls running() if its last call was more than ten seconds ago.
  void refresh_status(const TrainingState& state);

  // Logs the summary for people and, if `why` ends the run, the commands that may come next.
  // `saved_step` is the step of the newest checkpoint.
  void summarize(const TrainingState& state, std::optional<int64_t> saved_step, Stop why) const;
  // Writes the event `end` and the last status.json, and returns the line of status.json. Unless it
  // `is_part`, writes the model cards of a run that is done, or logs how to go on with one that is
  // not. The caller of a part, such as a trial of random restart, does that itself.
  std::string ended(const TrainingState& state, const RunEnd& end, bool is_part);
  // Does the same for a run that ends with an error: the state is "diverged" for kNumeric, else
  // "failed". If started() was not called and settings were changed, first writes an event
  // `resume`. Never throws Error, since the disk may have failed; returns an empty text if it could
  // not write status.json.
  std::string failed(const TrainingState& state, const Failure& failure,
                     const nlohmann::ordered_json& changed_settings);

 private:
  using Clock = std::chrono::steady_clock;

  void begin_prometheus(const TrainingState& state);
  void event(const std::string& name, const TrainingState& state, const std::string& reason,
             const nlohmann::ordered_json& fields = nlohmann::ordered_json::object());
  // Ends the lap, begins the next one, and returns the seconds of the one that ended.
  double lap();
  // `steady` is about the time of batches, see TimeLeft::batch_seconds().
  TimeLeft::Ahead left_to_do(const TrainingState& state, const RunAhead& ahead,
                             bool steady = false) const;
  double seconds_left(const TrainingState& state, const RunAhead& ahead) const;
  // Reads the losses to expect, if the config has a forecast.
  void read_expectation(const TrainingState& state);
  // Compares the held-out loss with the expected loss. Writes an event and a note at 5, 25 and 99 %
  // of the run. When the loss leaves the interval, from 25 % on, writes an event and a warning
  // instead.
  void compare_with_forecast(const TrainingState& state, double loss);
  // Returns the evaluations in metrics.jsonl, and the checkpoints that belong to them. `saved_step`
  // is the step of the newest checkpoint.
  EndReport evaluations(std::optional<int64_t> saved_step) const;
  // Returns the commands that may come next after a run has come to its end.
  std::string next_after(Stop why, const EndReport& report) const;
  // Returns whether the run goes on if its files cannot be written.
  bool outlives_full_disk() const;

  Config config_;
  RunFolder run_;
  ParameterLayout layout_;
  bool has_held_out_;
  int num_processes_;
  bool is_quiet_;
  std::optional<double> peak_flops_;  // of one device, a second
  TimeLeft time_left_;
  std::optional<LogFiles> files_;  // from begin() on
  std::optional<PrometheusFile> prometheus_;
  PrometheusFigures figures_;              // what prometheus_ has
  bool is_started_ = false;                // started() has been called
  std::optional<ExpectedCurve> expected_;  // from begin() on, where the run has one
  double compared_share_ = 0;              // of the run, at the last comparison with it
  bool is_unexpected_ = false;             // the loss is outside of its interval
  Clock::time_point started_, status_written_, lap_begin_;
  int64_t tokens_at_begin_ = 0;
  double elapsed_at_begin_ = 0;
  double seconds_waited_ = 0;    // for data, since begin()
  bool status_is_late_ = false;  // the disk has not taken the last status.json
};

}  // namespace lmtrain
