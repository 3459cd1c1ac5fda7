// Says everything that is said about a run: to people by progress line, notes, warnings and the
// summary at the end, to programs by metrics.jsonl, events.jsonl, status.json and TensorBoard. It
// also estimates how long the rest will take. It is given the state and figures, and decides
// nothing.
//
// begin() must be called before everything that writes to the logs, except where a function says
// otherwise. Only the trainer's thread may call it. Throws Error(kIo) when a file cannot be
// written. With checkpoint.on_save_error "continue" metrics and events are kept until the disk
// takes them (runlog/line_file.h), and a status "running" that the disk refuses is written
// later; yet sync(), which begin() and ended() call too, throws, and every call that writes throws
// when the run folder is gone. docs/formats/run_folder.md lists the events.
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
#include "model/parameters.h"
#include "optim/incident.h"
#include "eval/samples.h"
#include "runlog/metrics.h"
#include "runlog/report.h"
#include "runlog/time_left.h"
#include "distributed/agreement.h"
#include "schedule/due.h"
#include "schedule/run_end.h"
#include "eval/task_result.h"
#include "eval/evaluate.h"
#include "device/failure.h"

namespace lmtrain {

// Holds the figures of an update that was applied. `length` is that of the rows, `targets` counts
// those of the whole batch.
struct AppliedStep {
  double loss = 0, grad_norm = 0, lr = 0;
  int64_t length = 0, targets = 0;
  double seconds = 0;                       // waiting for data included
  std::optional<StepBalance> balance = {};  // of several processes
};

// Tells what follows a step, from which the time left is estimated.
struct RunAhead {
  const BatchOrder& order;
  const DueRules& rules;
  RunClock before, now;  // the clock before and after the step
};

// Returns the fields of the events `start` and `resume` that say by what a run computes.
nlohmann::ordered_json start_fields(const Config& config);

class Recorder {
 public:
  virtual ~Recorder() = default;

  // The next three serve a run that was finished before, and need no begin().
  //
  // Returns the line of status.json if it says that the run is done at this step, with its
  // checkpoint in this folder. Returns an empty text when it says anything else (a run that was
  // copied or moved names the folder it came from), is missing, damaged or no file.
  virtual std::string done_status(const TrainingState& state) const = 0;
  // Logs a note that the run has come to its end before, with the commands that may come next.
  virtual void note_finished(const TrainingState& state, Stop why) const = 0;
  // Cuts metrics.jsonl back to `state`, and writes an event `resume` where settings were changed.
  // Returns `status`, the result of done_status(); where that is empty, writes status.json anew,
  // and an event `end` unless the run has only been copied, and returns the line of status.json.
  virtual std::string finished_before(const TrainingState& state, Stop why,
                                      const std::string& status,
                                      const nlohmann::ordered_json& changed_settings) const = 0;

  // Calls put_metrics_aside() of metrics_check.h, and warns with the text that it returns, if any.
  // Returns that text. Needs no begin().
  virtual std::string put_metrics_aside() const = 0;
  // Opens the logs where `state` stands: metrics.jsonl is cut back to it, and mended. Called again
  // whenever the run goes back to a checkpoint.
  virtual void begin(const TrainingState& state) = 0;
  // Writes the event `start`, or `resume`, and status.json. `reason` is what put_metrics_aside()
  // has returned.
  virtual void started(const TrainingState& state, bool resumed, const std::string& reason,
                       const nlohmann::ordered_json& changed_settings) = 0;

  // Time is counted in laps: the time since begin_lap() belongs to the update, evaluation or save
  // that is reported next. Each of these reports begins the next lap.
  virtual void begin_lap() = 0;
  // Adds the seconds that a step waited for data; they are part of its time.
  virtual void add_wait(double seconds) = 0;
  // Writes the metrics of an update and shows the progress line, which stays on the screen if
  // `keep_line`. `state` is that after the step.
  virtual void update(const TrainingState& state, const AppliedStep& step, const RunAhead& ahead,
                      bool keep_line) = 0;
  // Writes the metrics of an evaluation, a note and status.json. `state` is that after it, `tasks`
  // are the results of eval.tasks.
  virtual void evaluated(const TrainingState& state, const Evaluation& evaluation,
                         const std::vector<TaskResult>& tasks) = 0;
  // Writes an event and a note of each sample.
  virtual void sampled(const TrainingState& state, const std::vector<SampledText>& samples) = 0;
  // Counts the lap as time of a save: the loop has given a checkpoint to be written, or has waited
  // for it.
  virtual void add_save() = 0;

  // The next four write an event; all but spike() also warn.
  virtual void reduced_micro_batch(const TrainingState& state,
                                   const MicroBatchReduction& lowered) = 0;
  virtual void spike(const TrainingState& state, const Incident& incident,
                     const std::string& reason) = 0;
  virtual void skipped(const TrainingState& state, const Incident& incident,
                       const std::string& reason) = 0;
  // The run went back from step `from_step` to `state`, to the checkpoint in the folder
  // `checkpoint`; none: it begins again.
  virtual void rolled_back(const TrainingState& state, const Incident& incident,
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

  // Logs the summary for people; the commands that may come next are in it where the run has ended.
  // `saved_step` is that of the newest checkpoint.
  virtual void summarize(const TrainingState& state, std::optional<int64_t> saved_step,
                         Stop why) const = 0;
  // Writes the event `end` and the last status.json, whose line is returned. Logs how to go on with
  // a run that is not done, unless `is_part`: a trial of random restart, or another part of a run,
  // which says that itself.
  virtual std::string ended(const TrainingState& state, const RunEnd& end, bool is_part) = 0;
  // Does the same for a run that ends with an error: its state is "diverged" for kNumeric, else
  // "failed". Where started() was not called, settings that were changed have an event `resume`
  // before. Never throws Error, since the disk may be what failed. Returns an empty text where
  // status.json could not be written.
  virtual std::string failed(const TrainingState& state, const Failure& failure,
                             const nlohmann::ordered_json& changed_settings) = 0;
};

// A RunRecorder writes into the folder of the run and to the log.
class RunRecorder final : public Recorder {
 public:
  // `config` is resolved. `eval_targets` are the targets of an evaluation; none: there is no
  // held-out text. `started` is when this process began with the run, and `num_processes` train it
  // together, each on a device of its own. Writes nothing yet.
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
  void spike(const TrainingState& state, const Incident& incident,
             const std::string& reason) override;
  void skipped(const TrainingState& state, const Incident& incident,
               const std::string& reason) override;
  void rolled_back(const TrainingState& state, const Incident& incident, const std::string& reason,
                   int64_t from_step,
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
  // The evaluations in metrics.jsonl, and the checkpoints that belong to them; `saved_step` is that
  // of the newest checkpoint.
  EndReport evaluations(std::optional<int64_t> saved_step) const;
  // The commands that may come next with the run, which has come to its end.
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
  std::optional<RunLog> log_;  // from begin() on
  bool is_started_ = false;    // started() has been called
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
  void spike(const TrainingState&, const Incident&, const std::string&) override {}
  void skipped(const TrainingState&, const Incident&, const std::string&) override {}
  void rolled_back(const TrainingState&, const Incident&, const std::string&, int64_t,
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
