// Everything that is said about a run, to people and to programs: progress line, notes, warnings
// and the summary at the end; metrics.jsonl, events.jsonl, status.json and TensorBoard; how long
// the rest will take. It is given the state and figures, and decides nothing.
//
// begin() comes before everything that writes to the logs, except where a function says otherwise.
// For the trainer's thread alone. Error(kIo) when a file cannot be written.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "batching/batch_order.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/state.h"
#include "config/config.h"
#include "model/parameters.h"
#include "run/incident.h"
#include "run/metrics.h"
#include "run/time_left.h"
#include "schedule/due.h"
#include "train/evaluate.h"
#include "train/failure.h"
#include "train/micro_batch_limits.h"

namespace lmtrain {

// The figures of an update that was applied.
struct AppliedStep {
  double loss = 0, grad_norm = 0, lr = 0;
  int64_t length = 0, targets = 0;
  double seconds = 0;  // waiting for data included
};

// The way from this step to the end, for the time left.
struct RunAhead {
  const BatchOrder& order;
  const DueRules& rules;
  RunClock before, now;  // the step
};

// How a run ended without an error.
struct RunEnd {
  bool done = false;
  std::string reason;  // "done", "signal 15", "max_time"
  int exit_code = 0;
  bool trial = false;  // of random restart; it is the whole run that says how to go on
};

class Recorder {
 public:
  // `config` is resolved. `eval_targets`: the targets of an evaluation; none: there is no held-out
  // text. `started`: when this process began with the run. Writes nothing yet.
  Recorder(const Config& config, const RunFolder& run, std::optional<int64_t> eval_targets,
           std::chrono::steady_clock::time_point started);
  virtual ~Recorder() = default;

  // A run that was finished before. These three need no begin().
  //
  // The line of status.json if it says that the run is done at this step, with its checkpoint in
  // this folder. Empty when it says anything else (a run that was copied or moved names the folder
  // it came from), is missing, damaged or no file: it is written again then.
  virtual std::string done_status(const TrainingState& state) const;
  virtual void note_finished(const TrainingState& state) const;
  // Notes the settings that were changed all the same. Returns `status`, or, where that is empty,
  // the one that is written now.
  virtual std::string finished_before(const TrainingState& state, const std::string& status,
                                      const nlohmann::ordered_json& changed_settings) const;

  // Puts aside what a run before this one has left in the folder (metrics_check.h), and warns of
  // it. Returns what was said. Needs no begin().
  virtual std::string put_metrics_aside() const;
  // Opens the logs where `state` stands: metrics.jsonl is cut back to it, and mended. Called again
  // whenever the run goes back to a checkpoint.
  virtual void begin(const TrainingState& state);
  // The event `start`, or `resume`; `left_behind` is what put_metrics_aside() has said.
  virtual void started(const TrainingState& state, bool resumed, const std::string& left_behind,
                       const nlohmann::ordered_json& changed_settings);

  // Time is counted in laps: what follows begin_lap() is the time of the update, evaluation or save
  // that is reported next. Each of these reports begins the next lap.
  virtual void begin_lap() { lap(); }
  // Adds the seconds that a step waited for data; they are part of its time.
  virtual void add_wait(double seconds) { seconds_waited_ += seconds; }
  // `state`: after the step. `keep_line`: the progress line stays on the screen.
  virtual void update(const TrainingState& state, const AppliedStep& step, const RunAhead& ahead,
                      bool keep_line);
  // `state`: after the evaluation. Ends with status.json.
  virtual void evaluated(const TrainingState& state, const EvalResult& result);
  // The loop has given a checkpoint to be written, or has waited for it.
  virtual void add_save();

  virtual void reduced_micro_batch(const TrainingState& state, const MicroBatchReduction& lowered);
  virtual void spike(const TrainingState& state, const Incident& incident,
                     const std::string& reason);
  virtual void skipped(const TrainingState& state, const Incident& incident,
                       const std::string& reason);
  // `state`: gone back to; `checkpoint`: its folder, none where the run begins again.
  virtual void rolled_back(const TrainingState& state, const Incident& incident,
                           const std::string& reason, int64_t from_step,
                           const std::optional<std::filesystem::path>& checkpoint);
  virtual void no_held_out_text() const;
  virtual void eval_loss_not_finite(const TrainingState& state) const;
  virtual void signalled(const TrainingState& state, int signal);

  // The metrics up to now are on disk after this, for a checkpoint to rely on.
  virtual void sync();
  // A checkpoint is published; it took so long to write.
  virtual void saved(const TrainingState& saved, double seconds);
  // Warns as well where the run goes on.
  virtual void save_failed(const TrainingState& lost, const std::string& reason, bool goes_on);

  // status.json of a run that goes on; the second one only where the last is ten seconds old.
  virtual void running(const TrainingState& state);
  virtual void refresh_status(const TrainingState& state);

  // The summary for people. `saved_step`: of the newest checkpoint.
  virtual void summarize(const TrainingState& state, std::optional<int64_t> saved_step,
                         bool finished) const;
  // The event `end` and the last status.json, whose line is returned.
  virtual std::string ended(const TrainingState& state, const RunEnd& end);
  // The same of an error. Never throws Error, and needs no begin(): the disk may be what failed.
  // Empty where status.json could not be written.
  virtual std::string failed(const TrainingState& state, const Failure& failure);

 private:
  using Clock = std::chrono::steady_clock;

  void event(const std::string& name, const TrainingState& state, const std::string& reason,
             const nlohmann::ordered_json& fields = nlohmann::ordered_json::object());
  // Seconds since the last call, which begins the next lap.
  double lap();
  double seconds_left(const TrainingState& state, const RunAhead& ahead) const;

  Config config_;
  RunFolder run_;
  ParameterLayout layout_;
  bool has_held_out_;
  std::optional<double> peak_flops_;
  TimeLeft time_left_;
  std::optional<RunLog> log_;  // from begin() on
  Clock::time_point started_, status_written_, lap_begin_;
  int64_t tokens_at_begin_ = 0;
  double elapsed_at_begin_ = 0;
  double seconds_waited_ = 0;  // for data, since begin()
};

// That of a process which is not the first of its run: it says and writes nothing.
class SilentRecorder final : public Recorder {
 public:
  using Recorder::Recorder;
  std::string done_status(const TrainingState&) const override { return {}; }
  void note_finished(const TrainingState&) const override {}
  std::string finished_before(const TrainingState&, const std::string&,
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
  void evaluated(const TrainingState&, const EvalResult&) override {}
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
  void summarize(const TrainingState&, std::optional<int64_t>, bool) const override {}
  std::string ended(const TrainingState&, const RunEnd&) override { return {}; }
  std::string failed(const TrainingState&, const Failure&) override { return {}; }
};

}  // namespace lmtrain
