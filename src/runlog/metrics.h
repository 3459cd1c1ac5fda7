// Writes the files that a run leaves for people and programs: metrics.jsonl, events.jsonl,
// status.json and tensorboard/. docs/formats/run_folder.md lists their fields. Each call appends a
// line at once. Numbers that are not finite become null. Throws Error(kIo). A patient LogFiles
// keeps the lines that the disk refuses; it throws only in sync(), or if the run folder is gone.
// Not thread-safe.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/run_folder.h"
#include "checkpoint/state.h"
#include "device/failure.h"
#include "distributed/step_consensus.h"
#include "eval/evaluate.h"
#include "eval/task_result.h"
#include "runlog/tensorboard.h"

namespace lmtrain {

// A LineFile appends whole lines to a file. A patient one keeps the lines that the disk refuses,
// warns once, and writes them before the next line. So a run that outlives a full disk
// (checkpoint.on_save_error "continue") has every line in the end.
class LineFile {
 public:
  // Does not touch the file yet. The file may be missing, its folder not. `kept` are whole lines
  // that an earlier LineFile could not write; they are written before the next line.
  LineFile(std::filesystem::path path, bool patient, std::string kept = {});

  // Appends `line`, which has no newline at its end. Throws Error(kIo) if the system refuses; a
  // patient file only if its folder is gone.
  void append(const std::string& line);
  // Returns when all lines, also kept ones, are on disk. Throws Error(kIo).
  void sync();
  // Returns the lines that are not in the file yet.
  const std::string& kept() const { return kept_; }

 private:
  std::filesystem::path path_;
  bool patient_;
  std::string kept_;  // lines that are not in the file yet
};

// Holds the figures of an applied update, as metrics.jsonl has them. `tokens` counts targets from
// the start of the run, `tokens_per_second` is of this step, `mfu` a fraction, `elapsed` in
// seconds.
struct UpdateMetrics {
  int64_t step = 0, tokens = 0;
  double loss = 0, grad_norm = 0, lr = 0;
  int64_t seq_len = 0;
  double tokens_per_second = 0;
  std::optional<double> mfu;
  double elapsed = 0;
  std::optional<StepBalance> balance = {};  // set with several processes
};

// Returns the model FLOPs utilization, a fraction, of `num_devices` devices that reach
// `flops_per_second` together; nothing if the peak of one device is not known.
std::optional<double> model_flops_utilization(double flops_per_second, int num_devices,
                                              std::optional<double> peak_of_one);

class LogFiles {
 public:
  // Appends to existing files, and begins a TensorBoard file if `tensorboard`. If `patient`, it
  // keeps the lines that it cannot write (LineFile), and gives up a TensorBoard file that it cannot
  // write. First mend_metrics() (metrics_check.h) must cut metrics.jsonl back to `state`.
  // `kept_events` is the kept_events() of the former LogFiles.
  LogFiles(const RunFolder& run, const TrainingState& state, bool tensorboard, bool patient = false,
           std::string kept_events = {});

  void update(const UpdateMetrics& metrics);
  // `tasks` are the results of eval.tasks.
  void evaluation(int64_t step, int64_t tokens, const Evaluation& evaluation,
                  const std::vector<TaskResult>& tasks = {});
  // Returns when all metrics and events are on disk, so that a checkpoint can rely on them.
  void sync();
  // Returns the events that are not in the file yet, since the disk is full.
  const std::string& kept_events() const { return events_.kept(); }

  // Appends a line to events.jsonl; `fields` are added to time, event, step, batch, reason.
  void event(const std::string& name, const TrainingState& state, const std::string& reason,
             const nlohmann::ordered_json& fields = nlohmann::ordered_json::object());

 private:
  void append_metrics(const nlohmann::ordered_json& line);
  // Writes into the TensorBoard file, if there is one, and begins a new one where the folder was
  // deleted.
  void write_scalars(std::span<const Scalar> scalars, int64_t step);

  RunFolder run_;
  bool patient_;
  LineFile metrics_, events_;
  std::optional<TensorboardWriter> tensorboard_;
};

// Returns the line of such an event, without its newline character.
std::string event_line(const std::string& name, const TrainingState& state,
                       const std::string& reason, const nlohmann::ordered_json& fields);

// Replaces status.json atomically and returns its one line. `state` is running, done, stopped,
// diverged or failed. It names the newest checkpoint up to training.step. A missing exit_code
// becomes null.
std::string write_status(const RunFolder& run, const std::string& state,
                         const TrainingState& training, std::optional<int> exit_code);
// Returns the `state` in status.json; empty if status.json is missing or damaged.
std::string status_state(const RunFolder& run);
// Returns the line of status.json if it says that the run is done at this step, with its checkpoint
// in this folder or, with `of_any_folder`, in any folder; otherwise an empty text.
std::string done_status(const RunFolder& run, int64_t step, bool of_any_folder = false);
// Does as write_status() for a run that ended with an error: `state` is "diverged" for kNumeric,
// else "failed".
std::string write_failed_status(const RunFolder& run, const TrainingState& training,
                                const Failure& failure);

}  // namespace lmtrain
