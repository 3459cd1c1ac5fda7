// Writes the files that a run leaves for people and programs to read: metrics.jsonl, events.jsonl,
// status.json, tensorboard/. docs/formats/run_folder.md has their fields. Each call appends its
// line at once; numbers that are not finite become null. Throws Error(kIo). A patient RunLog keeps
// lines that the disk refuses, and throws only where the run folder is gone, and in sync().
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/run_folder.h"
#include "checkpoint/state.h"
#include "runlog/line_file.h"
#include "runlog/tensorboard.h"
#include "distributed/agreement.h"
#include "eval/task_result.h"
#include "eval/evaluate.h"
#include "device/failure.h"

namespace lmtrain {

// Holds the figures of an applied update, all as metrics.jsonl has them: `tokens` since the run
// began, `tokens_per_second` of this step, `mfu` as a fraction, `elapsed` in seconds.
struct UpdateMetrics {
  int64_t step = 0, tokens = 0;
  double loss = 0, grad_norm = 0, lr = 0;
  int64_t seq_len = 0;
  double tokens_per_second = 0;
  std::optional<double> mfu;
  double elapsed = 0;
  std::optional<StepBalance> balance = {};  // of several processes
};

// Returns the model FLOPs utilization of `num_devices` that make `flops_per_second` together; none
// where the peak of one of them is not known.
std::optional<double> model_flops_utilization(double flops_per_second, int num_devices,
                                              std::optional<double> peak_of_one);

class RunLog {
 public:
  // Goes on with the files that are there, and begins a TensorBoard file if `tensorboard`. Lines
  // that cannot be written are kept if `patient` (line_file.h), and TensorBoard's file is given up.
  // mend_metrics() (metrics_check.h) comes first: it cuts metrics.jsonl back to `state`.
  // `kept_events` are those of a RunLog before (kept_events()).
  RunLog(const RunFolder& run, const TrainingState& state, bool tensorboard, bool patient = false,
         std::string kept_events = {});

  void update(const UpdateMetrics& metrics);
  // `tasks` are the results of eval.tasks.
  void evaluation(int64_t step, int64_t tokens, const Evaluation& evaluation,
                  const std::vector<TaskResult>& tasks = {});
  // Returns when all metrics and events are on disk, so that a checkpoint can rely on them.
  void sync();
  // Returns the lines of events that a full disk has kept out of the file.
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

// Rewrites status.json atomically and returns its one line. `state` is running, done, stopped,
// diverged or failed. The checkpoint it names is the newest one up to training.step. A missing
// exit_code becomes null.
std::string write_status(const RunFolder& run, const std::string& state,
                         const TrainingState& training, std::optional<int> exit_code);
// Returns the line of status.json where it says that the run is done with the checkpoint of this
// step in this folder, or, with `of_any_folder`, in the one that it was copied from; an empty text
// elsewhere.
std::string done_status(const RunFolder& run, int64_t step, bool of_any_folder = false);
// Does as write_status() for a run that ended with an error: `state` is "diverged" for kNumeric,
// else "failed".
std::string write_failed_status(const RunFolder& run, const TrainingState& training,
                                const Failure& failure);

}  // namespace lmtrain
