// Trains a run from its first batch, or from a checkpoint, to its end: the loop, and what happens
// around it.
//
// The trainer owns everything a run needs, keeps the order in which things happen, and saves. What
// is due after a step is decided by schedule/due.h, what becomes of a step by run/anomaly_policy.h,
// and run/recorder.h says it. Everything that decides a bit of the result is in the config, the
// prepared data and the checkpoint; nothing depends on time except when something is saved or
// printed.
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
#include "run/probes/samples.h"
#include "run/probes/task_probe.h"
#include "run/recorder.h"
#include "run/records/report.h"
#include "run/records/stall_watch.h"
#include "run/run_warnings.h"
#include "run/shared/agreement.h"
#include "run/shared/checkpoint_writers.h"
#include "run/shared/optimizer_shards.h"
#include "run/shared/sharded_weights.h"
#include "run/shared/shared_save.h"
#include "run/shared/step_sum.h"
#include "schedule/due.h"
#include "schedule/lr_schedule.h"
#include "schedule/run_clock.h"
#include "train/engine.h"
#include "train/plan.h"
#include "train/resolve.h"

namespace lmtrain {

struct RunOutcome {
  int exit_code = 0;
  std::string status;  // the final status.json, one line; empty in every process but the first
};

class Trainer {
 public:
  // `config` is resolved (train/resolve.h). `checkpoint` is the step to go on from, its files
  // verified. Reads weights, opens the data and plans the batches; writes nothing yet. With `trial`
  // it trains only the beginning of the run, this long, saves that, and then evaluates it. Throws
  // StopRequested on a signal, or when max_time is over, before the batches are planned.
  //
  // Several processes make the same Trainer at the same time, and call run() together. The first
  // alone reads checkpoints, and writes, but for tensors of checkpoints (run/shared/shared_save.h):
  // to the others the folder is a name. Each decides the same as the others, from what was
  // exchanged.
  Trainer(Config config, PreparedData data, const RunFolder& run, std::optional<int64_t> checkpoint,
          std::optional<TrainingDuration> trial = {}, Processes& processes = only_process());
  ~Trainer();

  RunPlan plan() const { return plan_run(config_, data_, *order_, processes_.count()); }
  // Returns the plan of the run for people: model, data, lengths, steps.
  std::string summary() const {
    return run_summary(config_, data_, *order_, eval_targets(), run_.path());
  }
  // Returns warnings of settings that are seldom meant (run/run_warnings.h).
  std::vector<std::string> warnings() const {
    return run_warnings(config_, *order_, eval_targets());
  }
  // Trains until the end, a signal or max_time; the folder's lock must be held. Errors are written
  // to status.json and thrown on.
  RunOutcome run();
  // Returns the status.json that a failed run() has written; empty when it could not.
  const std::string& failed_status() const { return failed_status_; }
  const TrainingState& state() const { return state_; }
  const BatchOrder& order() const { return *order_; }

  // The event `resume` names these settings that this process has changed: changes_json of
  // checkpoint/changed_settings.h.
  nlohmann::ordered_json changed_settings = nlohmann::ordered_json::array();

  // No step follows this one: the run saves there, and ends as at train.max_time. It serves a run
  // that is a part of another (run/verify_resume.h), so nothing says how to go on with it.
  std::optional<int64_t> last_step;

  // Tests of the guard set this. It is called with a batch, its loss and its gradient between
  // backward and clipping, and may change the two.
  std::function<void(const Batch&, double& loss, const at::Tensor& grad)> after_backward;

 private:
  // Trains from where the state stands until no step follows; returns why, with all saved.
  Stop train();
  // Returns the outcome of a run that has come to its end, `why`, and has its last evaluation;
  // nothing when there is something left to do.
  std::optional<RunOutcome> already_done(Stop why);
  // Makes the models read their weights by pieces, which the processes have divided.
  void bring_weights_by_pieces();
  // Sets state, weights, optimizer and order of data as of checkpoint_ (run/restore.h).
  void restore();
  // Makes logs and loader begin where the state stands.
  void begin_from_state();
  // Makes a step and returns the figures of the update; nothing when the step was refused.
  std::optional<AppliedStep> train_batch();
  // Returns the loss of the whole batch whose share is given; its gradient is in the engine.
  double forward_and_backward(const Batch& batch);
  // Returns the rows of the next batch that this process computes. Does not return where they
  // cannot be read or are damaged.
  Batch next_batch();
  // Ends the run in every process, after some process could not read the rows of a step or of an
  // evaluation, or, with one process, after any error of an evaluation. All save the state after
  // the last step together, which is sound. Then a process throws its own `error`; one that has
  // none (null) throws ProcessLost, which names the error of another one.
  [[noreturn]] void save_and_end(const std::exception_ptr& error);
  // Computes forward and backward of the share, in smaller micro-batches where memory does not hold
  // them after all, and returns its losses (StepSum::compute).
  std::vector<double> compute_share(const Batch& batch);
  // Finds micro-batches that fit into memory, the same in every process.
  void fit_micro_batches();
  // Carries out the decision about a step that must not be applied.
  void refuse_step(Incident incident, const StepDecision& decision);
  void roll_back(const Incident& incident, const std::string& reason);
  // Evaluates where this step has not been evaluated, and saves where checkpoint.keep_best wants
  // the new lowest loss. Gathers the masters in every case: what follows reads all weights.
  void evaluate_now();
  // Returns the held-out loss, of the masters; nothing when a signal has come to any process. Does
  // not return where some process cannot read its rows.
  std::optional<Evaluation> evaluate_held_out();
  // Returns the samples of log.samples, which the first process alone writes.
  std::vector<SampledText> write_samples();
  // Returns the results of eval.tasks, which every process computes alike, so that none waits for
  // another; none without tasks. Returns nothing when a signal has come to any process.
  std::optional<std::vector<TaskResult>> ask_tasks();
  // Returns the name of the first weight with a value that is not finite, the same in every
  // process; empty: all are finite. All processes call it together.
  std::string first_bad_weight() const;
  // Makes ready to save: finds out which processes write.
  void prepare_saves();
  void save_checkpoint();
  void save_failed(const TrainingState& lost, const std::exception_ptr& failure);
  // Ends the first planning of this process.
  void poll_planning() const;
  RunClock clock() const {  // as of the state
    return run_clock(config_, *order_)
        .after(static_cast<double>(state_.step), static_cast<double>(state_.tokens),
               state_.elapsed);
  }
  // Returns the things that are due now, after the step that began at `before`.
  Due due_since(const RunClock& before) const;
  Stop stop() const { return due_since(clock()).stop; }
  // Returns the targets of an evaluation; none: there is no held-out text.
  std::optional<int64_t> eval_targets() const;

  Config config_;
  PreparedData data_;
  RunFolder run_;
  std::optional<int64_t> checkpoint_;
  TrainingState state_;

  TokenShard train_shard_;
  std::optional<TokenShard> eval_shard_;
  EvalSets eval_sets_;  // of eval_shard_
  std::unique_ptr<BatchOrder> order_;
  ExchangeLines lines_;
  OptimizerShards shards_;
  Engine engine_;
  std::optional<LrSchedule> lr_schedule_;
  DueRules rules_;

  std::chrono::steady_clock::time_point started_;
  Processes& processes_;
  // The weights that forward and backward read, and those that evaluations read; null where weights
  // are not divided.
  std::unique_ptr<ShardedWeights> weights_, evaluation_weights_;
  StepSum step_sum_;
  Agreement agreement_;
  std::unique_ptr<Recorder> recorder_;
  CheckpointTexts texts_;
  std::optional<SampleWriter> samples_;  // in rank 0, when log.samples is set
  std::optional<TaskProbe> tasks_;
  std::unique_ptr<StallWatch> stall_watch_;  // outlives a save under way
  CheckpointWriters writers_;
  std::optional<SharedSave> shared_save_;
  std::unique_ptr<CheckpointSaver> saver_;  // of a process that writes checkpoints
  std::unique_ptr<Loader> loader_;
  std::string failed_status_;
  std::optional<TrainingState> saved_;  // the state of the newest checkpoint of this run
  bool ending_ = false;                 // no step follows
};

}  // namespace lmtrain
