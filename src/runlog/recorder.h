// Reports everything about a run. People get the progress line, notes, warnings and the summary at
// the end. Programs get metrics.jsonl, events.jsonl, status.json and TensorBoard. The recorder also
// estimates the time left. It is given the state and figures, and decides nothing.
//
// begin() must come before all calls that write to the logs, unless a function says otherwise. Only
// the trainer's thread may call it. Throws Error(kIo) when a file cannot be written.
//
// With checkpoint.on_save_error "continue", lines that the disk refuses are kept and written later
// (runlog/line_file.h), and so is a status "running". Even then sync() throws, which begin()
// and ended() call too, and every write throws when the run folder is gone.
// docs/formats/run_folder.md lists the events.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "batching/batch_order.h"
#include "batching/micro_batch.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/state.h"
#include "config/config.h"
#include "device/failure.h"
#include "distributed/agreement.h"
#include "eval/evaluate.h"
#include "eval/samples.h"
#include "eval/task_result.h"
#include "formats/expected_curve.h"
#include "model/parameters.h"
#include "optim/guard.h"
#include "runlog/metrics.h"
#include "runlog/report.h"
#include "runlog/time_left.h"
#include "schedule/due.h"
#include "schedule/run_end.h"

namespace lmtrain {

// Holds the figures of an update that was applied.
struct AppliedStep {
  double loss = 0, grad_norm = 0, lr = 0;
  int64_t length = 0, targets = 0;          // tokens in a row; targets in the whole batch
  double seconds = 0;                       // waiting for data included
  std::optional<StepBalance> balance = {};  // set with several processes
};

// Tells what follows a step. The time left is estimated from it.
struct RunAhead {
  const BatchOrder& order;
  const DueRules& rules;
  RunClock before, now;  // the clock before and after the step
};

// Returns the fields of the events `start` and `resume` that name program, device and precision.
nlohmann::ordered_json start_fields(const Config& config);

class Recorder {
 public:
  virtual ~Recorder() = default;

  // The next three serve a run that was finished before, and need no begin().
  //
  // Returns the line of status.json if it says that the run is done at this step, with its
  // checkpoint in this folder. Otherwise returns an empty text, also when status.json is missing,
  // damaged or no file. In a copied or moved run it names the folder of the original.
  virtual std::string done_status(const TrainingState& state) const = 0;
  // Logs a note that the run was finished before, and the commands that may come next.
  virtual void note_finished(const TrainingState& state, Stop why) const = 0;
  // Cuts metrics.jsonl back to `state`, and writes an event `resume` if settings were changed.
  // `status` is the result of done_status(), and is returned unless it is empty. If it is empty,
  // writes status.json and returns its line; also writes an event `end`, unless the run was only
  // copied.
  virtual std::string finished_before(const TrainingState& state, Stop why,
                                      const std::string& status,
                                      const nlohmann::ordered_json& changed_settings) const = 0;

  // Calls put_metrics_aside() of metrics_check.h, warns with its text, if any, and returns the
  // text. Needs no begin().
  virtual std::string put_metrics_aside() const = 0;
  // Opens the logs: metrics.jsonl is cut back to `state`, and mended. Call it again whenever the
  // run goes back to a checkpoint.
  virtual void begin(const TrainingState& state) = 0;
  // Writes the event `resume` if `resumed`, else `start`, and status.json. `reason` is the result
  // of put_metrics_aside().
  virtual void started(const TrainingState& state, bool resumed, const std::string& reason,
                       const nlohmann::ordered_json& changed_settings) = 0;

  // Time is counted in laps: the time since begin_lap() belongs to the update, evaluation or save
  // that is reported next. Each of these reports begins the next lap.
  virtual void begin_lap() = 0;
  // Adds the seconds that a step waited for data; they are part of its time.
  virtual void add_wait(double seconds) = 0;
  // Writes the metrics of an update and shows the progress line, which stays on the screen if
  // `keep_line`. `state` is the state after the step.
  virtual void update(const TrainingState& state, const AppliedStep& step, const RunAhead& ahead,
                      bool keep_line) = 0;
  // Writes the metrics of an evaluation, a note and status.json. `state` is the state after the
  // evaluation. `tasks` are the results of eval.tasks.
  virtual void evaluated(const TrainingState& state, const Evaluation& evaluation,
                         const std::vector<TaskResult>& tasks) = 0;
  // Writes an event and a note of each sample.
  virtual void sampled(const TrainingState& state, const std::vector<SampledText>& samples) = 0;
  // Counts the lap as time of a save: the training loop handed over a checkpoint, or waited until
  // it was written.
  virtual void add_save() = 0;

  // The next four write an event. All but spike() also warn.
  virtual void reduced_micro_batch(const TrainingState& state,
                                   const MicroBatchReduction& lowered) = 0;
  virtual void spike(const TrainingState& state, const RefusedBatch& refused,
                     const std::string& reason) = 0;
  virtual void skipped(const TrainingState& state, const RefusedBatch& refused,
                       const std::string& reason) = 0;
  // The run went back from step `from_step` to `state`. `checkpoint` is the folder of the
  // checkpoint that it went back to; nothing: the run begins again.
  virtual void rolled_back(const TrainingState& state, const RefusedBatch& refused,
                           const std::string& reason, int64_t from_step,
                           const std::optional<std::filesystem::path>& checkpoint) = 0;
  // These two only warn.
  virtual void no_held_out_text() const = 0;
  virtual void eval_loss_not_finite(const TrainingState& state) const = 0;
  // Writes an event.
  virtual void signalled(const TrainingState& state, int signal) = 0;

  // Returns when all metrics are on disk, so that a checkpoint can rely on them.
  virtual void sync() = 0;
  // Writes the event of a checkpoint that is published; writing it took `seconds`.
  virtual void saved(const TrainingState& saved, double seconds) = 0;
  // Writes an event, and warns where the run goes on. `lost` is the state that was not saved.
  virtual void save_failed(const TrainingState& lost, const std::string& reason, bool goes_on) = 0;

  // Writes status.json with the state "running".
  virtual void running(const TrainingState& state) = 0;
  // Calls running() where that was last called more than ten seconds ago.
  virtual void refresh_status(const TrainingState& state) = 0;

  // Logs the summary for people. If the run has ended, it names the commands that may come next.
  // `saved_step` is the step of the newest checkpoint.
  virtual void summarize(const TrainingState& state, std::optional<int64_t> saved_step,
                         Stop why) const = 0;
  // Writes the event `end` and the last status.json, and returns the line of status.json. Logs how
  // to go on with a run that is not done, unless it `is_part`. The caller of a part, such as a
  // trial of random restart, logs this itself.
  virtual std::string ended(const TrainingState& state, const RunEnd& end, bool is_part) = 0;
  // Does the same for a run that ends with an error. Its state is "diverged" for kNumeric, else
  // "failed". If started() was not called and settings were changed, it first writes an event
  // `resume`. Never throws Error, since the disk may have failed. Returns an empty text when
  // status.json could not be written.
  virtual std::string failed(const TrainingState& state, const Failure& failure,
                             const nlohmann::ordered_json& changed_settings) = 0;
};

// A RunRecorder writes into the folder of the run and to the log.
class RunRecorder final : public Recorder {
 public:
  // `config` is resolved. `eval_targets` is the number of targets of an evaluation; nothing without
  // held-out text. `started` is the time at which this process began the run. `num_processes` train
  // it together, each on its own device. Writes nothing yet.
  RunRecorder(const Config& config, const RunFolder& run, std::optional<int64_t> eval_targets,
              std::chrono::steady_clock::time_point started, int num_processes);

  std::string done_status(const TrainingState& state) const override;
  void note_finished(const TrainingState& state, Stop why) const override;
  std::string finished_before(const TrainingState& state, Stop why, const std::string& status,
                              const nlohmann::ordered_json& changed_settings) const override;
  std::string put_metrics_aside() const override;
  void begin(const TrainingState& state) override;
  void started(const TrainingState& state, bool resumed, const std::string& reason,
               const nlohmann::ordered_json& changed_settings) override;
  void begin_lap() override { lap(); }
  void add_wait(double seconds) override { seconds_waited_ += seconds; }
  void update(const TrainingState& state, const AppliedStep& step, const RunAhead& ahead,
              bool keep_line) override;
  void evaluated(const TrainingState& state, const Evaluation& evaluation,
                 const std::vector<TaskResult>& tasks) override;
  void sampled(const TrainingState& state, const std::vector<SampledText>& samples) override;
  void add_save() override;
  void reduced_micro_batch(const TrainingState& state, const MicroBatchReduction& lowered) override;
  void spike(const TrainingState& state, const RefusedBatch& refused,
             const std::string& reason) override;
  void skipped(const TrainingState& state, const RefusedBatch& refused,
               const std::string& reason) override;
  void rolled_back(const TrainingState& state, const RefusedBatch& refused,
                   const std::string& reason, int64_t from_step,
                   const std::optional<std::filesystem::path>& checkpoint) override;
  void no_held_out_text() const override;
  void eval_loss_not_finite(const TrainingState& state) const override;
  void signalled(const TrainingState& state, int signal) override;
  void sync() override;
  void saved(const TrainingState& saved, double seconds) override;
  void save_failed(const TrainingState& lost, const std::string& reason, bool goes_on) override;
  void running(const TrainingState& state) override;
  void refresh_status(const TrainingState& state) override;
  void summarize(const TrainingState& state, std::optional<int64_t> saved_step,
                 Stop why) const override;
  std::string ended(const TrainingState& state, const RunEnd& end, bool is_part) override;
  std::string failed(const TrainingState& state, const Failure& failure,
                     const nlohmann::ordered_json& changed_settings) override;

 private:
  using Clock = std::chrono::steady_clock;

  void event(const std::string& name, const TrainingState& state, const std::string& reason,
             const nlohmann::ordered_json& fields = nlohmann::ordered_json::object());
  // Ends the lap, begins the next one, and returns the seconds of the one that ended.
  double lap();
  double seconds_left(const TrainingState& state, const RunAhead& ahead) const;
  // Compares the held-out loss with the one that was expected: an event and a note at 5, 25 and
  // 100 % of the run, and a warning where the loss leaves the interval.
  void compare_with_forecast(const TrainingState& state, double loss);
  // Returns the evaluations in metrics.jsonl, and the checkpoints that belong to them. `saved_step`
  // is the step of the newest checkpoint.
  EndReport evaluations(std::optional<int64_t> saved_step) const;
  // Returns the commands that may come next after a run has come to its end.
  std::string next_after(Stop why, const EndReport& report) const;
  // Whether the run goes on where its files cannot be written.
  bool outlives_full_disk() const;

  Config config_;
  RunFolder run_;
  ParameterLayout layout_;
  bool has_held_out_;
  int num_processes_;
  std::optional<double> peak_flops_;  // of one device, a second
  TimeLeft time_left_;
  std::optional<RunLog> log_;              // from begin() on
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

// A SilentRecorder says and writes nothing. Every process of a run but the first has one.
class SilentRecorder final : public Recorder {
 public:
  std::string done_status(const TrainingState&) const override { return {}; }
  void note_finished(const TrainingState&, Stop) const override {}
  std::string finished_before(const TrainingState&, Stop, const std::string&,
                              const nlohmann::ordered_json&) const override {
    return {};
  }
  std::string put_metrics_aside() const override { return {}; }
  void begin(const TrainingState&) override {}
  void started(const TrainingState&, bool, const std::string&,
               const nlohmann::ordered_json&) override {}
  void begin_lap() override {}
  void add_wait(double) override {}
  void update(const TrainingState&, const AppliedStep&, const RunAhead&, bool) override {}
  void evaluated(const TrainingState&, const Evaluation&, const std::vector<TaskResult>&) override {
  }
  void sampled(const TrainingState&, const std::vector<SampledText>&) override {}
  void add_save() override {}
  void reduced_micro_batch(const TrainingState&, const MicroBatchReduction&) override {}
  void spike(const TrainingState&, const RefusedBatch&, const std::string&) override {}
  void skipped(const TrainingState&, const RefusedBatch&, const std::string&) override {}
  void rolled_back(const TrainingState&, const RefusedBatch&, const std::string&, int64_t,
                   const std::optional<std::filesystem::path>&) override {}
  void no_held_out_text() const override {}
  void eval_loss_not_finite(const TrainingState&) const override {}
  void signalled(const TrainingState&, int) override {}
  void sync() override {}
  void saved(const TrainingState&, double) override {}
  void save_failed(const TrainingState&, const std::string&, bool) override {}
  void running(const TrainingState&) override {}
  void refresh_status(const TrainingState&) override {}
  void summarize(const TrainingState&, std::optional<int64_t>, Stop) const override {}
  std::string ended(const TrainingState&, const RunEnd&, bool) override { return {}; }
  std::string failed(const TrainingState&, const Failure&, const nlohmann::ordered_json&) override {
    return {};
  }
};

}  // namespace lmtrain
