// The files that a run leaves for people and programs to read: metrics.jsonl, events.jsonl,
// status.json, tensorboard/. The fields are docs/formats/run_folder.md's. Everything is written
// through, one line a call; non-finite numbers become null.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "checkpoint/run_folder.h"
#include "checkpoint/state.h"
#include "formats/tensorboard.h"
#include "train/evaluate.h"

namespace lmtrain {

struct UpdateMetrics {
  int64_t step = 0, tokens = 0;
  double loss = 0, grad_norm = 0, lr = 0;
  int64_t seq_len = 0;
  double tokens_per_second = 0;
  std::optional<double> mfu;
  double elapsed = 0;
};

class RunLog {
 public:
  // Goes on with the files there are (metrics_check.h cuts metrics.jsonl back to `state` first),
  // and begins a TensorBoard file.
  RunLog(const RunFolder& run, const TrainingState& state, bool tensorboard);

  void update(const UpdateMetrics& metrics);
  void evaluation(int64_t step, int64_t tokens, const EvalResult& result);
  // On disk after this, for a checkpoint to rely on.
  void sync();

  // One line of events.jsonl; `fields` are added to time, event, step, batch, reason.
  void event(const std::string& name, const TrainingState& state, const std::string& reason,
             const nlohmann::ordered_json& fields = nlohmann::ordered_json::object());

 private:
  void append_metrics(const nlohmann::ordered_json& line);
  // Into the TensorBoard file, if there is one; begun anew where the folder was deleted.
  void write_scalars(std::span<const Scalar> scalars, int64_t step);

  RunFolder run_;
  std::optional<TensorboardWriter> tensorboard_;
};

// status.json, rewritten atomically. `state`: running, done, stopped, diverged, failed. Returns its
// one-line text.
std::string write_status(const RunFolder& run, const std::string& state,
                         const TrainingState& training, std::optional<int> exit_code);

}  // namespace lmtrain
