// A run from its first batch, or from a checkpoint, to its end: the loop, and what happens around
// it.
//
// The trainer owns everything a run needs. Everything that decides a bit of the result is in the
// config, the prepared data and the checkpoint; nothing depends on time except when something is
// saved or printed. What becomes of a batch that must not be applied is trainer_guard.cpp's.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "batching/batch_order.h"
#include "batching/loader.h"
#include "checkpoint/checkpoint_saver.h"
#include "config/config.h"
#include "corpus/prepare.h"
#include "formats/token_shard.h"
#include "run/anomaly_policy.h"
#include "run/metrics.h"
#include "run/time_left.h"
#include "schedule/cadence.h"
#include "schedule/lr_schedule.h"
#include "schedule/run_clock.h"
#include "schedule/save_schedule.h"
#include "train/engine.h"
#include "train/evaluate.h"
#include "train/plan.h"

namespace lmtrain {

struct RunOutcome {
  int exit_code = 0;
  std::string status;  // the final status.json, one line
};

class Trainer {
 public:
  // `config` is resolved (train/resolve.h). `checkpoint` is the step to go on from, its files
  // verified. Reads weights and opens the data; writes nothing yet. A `trial` is the beginning of
  // the run, this long: it is saved where it ends, and then evaluated.
  Trainer(Config config, PreparedData data, const RunFolder& run, std::optional<int64_t> checkpoint,
          std::optional<TrainingDuration> trial = {});
  ~Trainer();

  RunPlan plan() const { return plan_run(config_, data_, *order_); }
  // What the run will do, for people: model, data, lengths, steps.
  std::string summary() const;
  // What of it is seldom meant (run/run_warnings.h).
  std::vector<std::string> warnings() const;
  // Trains until the end, a signal or max_time; the folder's lock must be held. Errors are written
  // to status.json and thrown on.
  RunOutcome run();
  // The status.json that a failed run() has written; empty when it could not.
  const std::string& failed_status() const { return failed_status_; }
  const TrainingState& state() const { return state_; }
  const BatchOrder& order() const { return *order_; }

  // Settings that this process has changed, for the event `resume`: changes_json of
  // checkpoint/changed_settings.h.
  nlohmann::ordered_json changed_settings = nlohmann::ordered_json::array();

  // For tests of the guard: called with a batch, its loss and its gradient between backward and
  // clipping, and may change the two.
  std::function<void(const Batch&, double& loss, const at::Tensor& grad)> after_backward;

 private:
  void train();
  // The outcome of a run whose every step and evaluation is there already; nothing when there is
  // something left to do.
  std::optional<RunOutcome> already_done();
  // Weights, optimizer, state and order of data as of a checkpoint, or of the beginning.
  void restore(std::optional<int64_t> checkpoint);
  // Opens the logs where the state stands, and what was due there is made.
  void begin_from_state();
  // Forward and backward of a batch, in smaller micro-batches where memory does not hold them after
  // all.
  double forward_and_backward(const Batch& batch);
  void report_reduction(const MicroBatchReduction& lowered);
  // The next batch of the loader. When its data cannot be read or are damaged, the state, of which
  // nothing is of them, is saved before the error is thrown on.
  Batch next_batch();
  void save_before_error();
  void train_batch();
  // Does what was decided of a step that must not be applied.
  void refuse_step(const Batch& batch, double loss, double grad_norm, const StepDecision& decision);
  void skip_batch(const Batch& batch, const std::string& reason, nlohmann::ordered_json fields);
  void count_skip();
  void roll_back(const Batch& batch, const std::string& reason, nlohmann::ordered_json fields);
  nlohmann::ordered_json incident_fields(const Batch& batch, double loss, double grad_norm) const;
  // Error(kNumeric) for weights, or a last loss, that are not finite: nothing good comes of them.
  void require_finite_weights() const;
  void require_finite_end() const;
  void judge_evaluation(double loss) const;
  void evaluate_now();
  void save_checkpoint();
  void save_failed(const TrainingState& lost, const std::exception_ptr& failure);
  void report_update(const UpdateMetrics& metrics, const RunClock& before);
  // How much of the run is to be done by this Trainer, in the unit of the run.
  double end() const { return trial_end_.value_or(clock().total); }
  // Batches to come, as far as known.
  int64_t batches_left() const;
  // After a step, of the progress before it.
  double seconds_left(const RunClock& before) const;
  // Seconds since the last call, which begins the next lap.
  double lap();
  void report_end() const;
  bool finished() const;
  bool at_end() const;     // likewise, of a trial too
  RunClock clock() const;  // as of the state
  void write_running_status();

  Config config_;
  PreparedData data_;
  RunFolder run_;
  std::optional<int64_t> checkpoint_;
  TrainingState state_;

  TokenShard train_shard_;
  std::optional<TokenShard> eval_shard_;
  std::unique_ptr<BatchOrder> order_;
  Engine engine_;
  std::optional<LrSchedule> lr_schedule_;
  std::optional<double> trial_end_;  // in the unit of the run
  Cadence eval_every_, log_every_;
  SaveSchedule saves_;
  std::optional<double> peak_flops_;

  CheckpointTexts texts_;
  std::optional<RunLog> log_;
  std::unique_ptr<CheckpointSaver> saver_;
  std::unique_ptr<Loader> loader_;
  std::string failed_status_;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point status_written_;
  std::chrono::steady_clock::time_point lap_begin_;
  int64_t eval_targets_ = 0;  // of an evaluation
  std::optional<TimeLeft> time_left_;
  int64_t tokens_at_start_ = 0;
  double elapsed_at_start_ = 0;
  double seconds_waited_ = 0;  // for data, since elapsed_at_start_
  std::optional<int64_t> saved_step_;
  bool ending_ = false;  // no step follows
};

}  // namespace lmtrain
