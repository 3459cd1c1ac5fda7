// Trains a run from its first batch, or from a checkpoint, to its end.
//
// The trainer owns all parts of a run, calls them in order, and saves. schedule/due.h decides what
// is due after a step, optim/guard.h whether a step is applied. distributed/gradient_reducer.h sums
// the gradient over processes. runlog/run_log.h reports. Config, prepared data and checkpoint
// determine every bit of the result; time only decides when the run saves, prints or stops. Not
// thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "batching/batch_order.h"
#include "batching/loader.h"
#include "checkpoint/checkpoint_saver.h"
#include "checkpoint/shared_save.h"
#include "config/config.h"
#include "distributed/gradient_reducer.h"
#include "distributed/optimizer_shards.h"
#include "distributed/sharded_weights.h"
#include "distributed/step_consensus.h"
#include "eval/evaluate_tasks.h"
#include "eval/samples.h"
#include "formats/token_shard.h"
#include "optim/guard.h"
#include "prepare/prepare.h"
#include "runlog/report.h"
#include "runlog/run_log.h"
#include "runlog/stall_watch.h"
#include "schedule/due.h"
#include "schedule/lr_schedule.h"
#include "schedule/run_clock.h"
#include "training/engine.h"
#include "training/plan.h"
#include "training/preflight.h"
#include "training/resolve.h"

namespace lmtrain {

struct RunOutcome {
  int exit_code = 0;
  std::string status;       // in rank 0 the line of the final status.json; in other processes empty
  std::string reason = {};  // RunEnd::reason; empty if an earlier process has ended the run
};

// Holds options of Trainer::run() that are not in the config.
struct TrainingOptions {
  // The settings that this process has changed (changes_json of checkpoint/changed_settings.h), for
  // the event `resume`.
  nlohmann::ordered_json changed_settings = nlohmann::ordered_json::array();
  // The run saves after this step and ends. It is for a run that is part of another
  // (training/verify_resume.h), so no message says how to go on with it.
  std::optional<int64_t> last_step = {};
  // For tests of the guard: called between backward and clipping, it may change the loss and the
  // gradient.
  std::function<void(const Batch&, double& loss, const at::Tensor& grad)> after_backward = {};
};

class Trainer {
 public:
  // `config` is resolved (training/resolve.h). `checkpoint` is the step to go on from; its files
  // were verified. Reads weights, opens the data and plans the batches; writes nothing yet. With
  // `trial`, run() trains only the beginning of the run, of this length, saves it, and then
  // evaluates it. Throws StopRequested if a signal comes, or max_time ends, before the batches are
  // planned; the errors of Engine, load_run, BatchOrder, SampleWriter and TaskProbe.
  //
  // All processes of a run construct the same Trainer and call run() together. Only rank 0 reads
  // checkpoints and writes files, except for the tensors of checkpoints (checkpoint/shared_save.h).
  // All processes decide alike, from values that they exchange.
  Trainer(Config config, PreparedData data, const RunFolder& run, std::optional<int64_t> checkpoint,
          std::optional<TrainingDuration> trial = {}, Processes& processes = only_process());
  ~Trainer();

  RunPlan plan() const { return plan_run(config_, data_, *order_, processes_.count()); }
  // Returns the plan of the run for people: model, data, lengths, steps.
  std::string summary() const {
    return run_summary(config_, data_, *order_, eval_targets(), run_.path(),
                       ends_run(stop()) ? &state_ : nullptr);
  }
  // Returns warnings of settings that are seldom meant (training/preflight.h).
  std::vector<std::string> warnings() const {
    return preflight_warnings(config_, *order_, eval_targets());
  }
  // Trains until the end of the run or trial, last_step, a signal or max_time, and saves. The
  // folder's lock must be held. Writes any std::exception to status.json and rethrows it.
  RunOutcome run(TrainingOptions options = {});
  // Returns the status.json that a failed run() wrote; empty when it could not write.
  const std::string& failed_status() const { return failed_status_; }
  const TrainingState& state() const { return state_; }
  // Returns whether no step is left to train.
  bool is_finished() const { return ends_run(stop()); }
  const BatchOrder& order() const { return *order_; }

 private:
  // Trains from the present state until no step follows, and saves. Returns why it ended.
  Stop train();
  // Returns the outcome of a run that an earlier process has ended, because of `why`. Returns
  // nothing if its last evaluation is still to be made. Only rank 0 calls it.
  std::optional<RunOutcome> already_done(Stop why);
  // Sets state, weights, optimizer and order of data from checkpoint_ (training/load_run.h).
  void load();
  // Makes logs and loader begin at the present state.
  void begin_from_state();
  void begin_loader();
  // Returns whether rank 0 is to look whether the run ends with train.time.
  bool must_look_at_time() const;
  // Compares the time that is left of train.time with what the rest of the run takes, and plans the
  // rest anew if they differ. All processes call it together after a step that began at `before`;
  // rank 0 decides, and the run's config.json has the new length first.
  void fit_to_time(const RunClock& before);
  // Returns whether the config lists a change of length at the present batch.
  bool is_replan_listed() const;
  // Makes the next change of length that the config lists.
  void replan(const std::string& reason);
  // Trains on a batch and returns the figures of the update; nothing when the step was refused.
  std::optional<AppliedStep> train_batch();
  // Computes this process's share of a batch. Returns the loss of the whole batch, and leaves its
  // gradient in the engine.
  double forward_and_backward(const Batch& batch);
  // Returns this process's rows of the next batch. If they cannot be read or are damaged, it calls
  // save_and_end().
  Batch next_batch();
  // Ends the run in every process, after a process could not read the rows of a step or an
  // evaluation; with one process, after any error of an evaluation. All processes first save the
  // state after the last step, which is sound. A process with an `error` then throws it; one
  // without (null) throws ProcessLost, which names the error of another.
  [[noreturn]] void save_and_end(const std::exception_ptr& error);
  // Computes forward and backward of the share, and returns its losses. If memory runs out, tries
  // again with smaller micro-batches. But if the sum over processes has begun, returns nothing, and
  // all processes must compute the step again.
  std::optional<std::vector<double>> compute_share(const Batch& batch);
  // Returns the losses of a share that was not computed.
  std::vector<double> no_losses() const { return std::vector<double>(engine_.num_losses()); }
  // Returns the share of each batch that this process computes.
  BatchShare share() const { return {processes_.rank(), processes_.count()}; }
  // Finds micro-batches that fit into memory, the same in every process.
  void fit_micro_batches();
  // Carries out the verdict on a step that must not be applied.
  void refuse_step(RefusedBatch refused, const Verdict& verdict);
  // Goes back to the newest checkpoint, and skips the refused batch from then on.
  void roll_back(const RefusedBatch& refused, const std::string& reason);
  // Evaluates this step, unless it was evaluated before. Saves a checkpoint for a new lowest loss
  // if checkpoint.keep_best asks for it. Always gathers the masters first, which a save and a check
  // of the weights read.
  void evaluate_now();
  // Returns what `work`, a part of an evaluation, returns. After an error of it, calls
  // save_and_end().
  template <class Work>
  auto saving_first(const Work& work);
  // Returns the held-out loss of the masters; nothing when a process got a signal. If a process
  // cannot read its rows, it calls save_and_end().
  std::optional<Evaluation> evaluate_held_out();
  // Returns the samples of log.samples in rank 0, and none in other processes.
  std::vector<SampledText> write_samples();
  // Returns the results of eval.tasks; an empty list without tasks; nothing if a process got a
  // signal. Every process computes all results, so no process waits for another.
  std::optional<std::vector<TaskResult>> ask_tasks();
  // Returns the name of the first weight with a value that is not finite; empty if all are finite.
  // All processes call it together and get the same name.
  std::string first_bad_weight() const;
  // Finds out which processes write checkpoints, and makes them ready to save.
  void prepare_saves();
  // Saves the state unless saved_ holds it already. All processes call it together.
  void save_checkpoint();
  // Rethrows `failure` if the run must end; otherwise warns, and the next save is due again.
  void save_failed(const TrainingState& lost, const std::exception_ptr& failure);
  // Throws StopRequested during the first planning on a signal, and in rank 0 after max_time.
  void poll_planning() const;
  RunClock clock() const;  // as of the state
  // Returns the things that are due now, after the step that began at `before`.
  Due due_since(const RunClock& before) const;
  Stop stop() const { return due_since(clock()).stop; }
  // Returns the number of targets of an evaluation; nothing without held-out text.
  std::optional<int64_t> eval_targets() const;

  Config config_;
  PreparedData data_;
  RunFolder run_;
  std::optional<int64_t> checkpoint_;
  TrainingState state_;

  TokenShard train_shard_;
  std::optional<TokenShard> eval_shard_;
  EvalSets eval_sets_;  // the sets of eval_shard_
  std::unique_ptr<BatchOrder> order_;
  std::optional<LrSchedule> lr_schedule_;
  DueRules rules_;

  TrainingOptions options_;
  Processes& processes_;
  OptimizerShards shards_;
  Engine engine_;
  std::chrono::steady_clock::time_point started_;
  std::unique_ptr<GradientReducer> reducer_;
  // Divided weights of evaluations that have a model of their own; otherwise null.
  std::unique_ptr<ModuleWeights> evaluation_weights_;
  StepConsensus consensus_;
  std::optional<RunLog> log_;
  CheckpointTexts texts_;
  std::optional<SampleWriter> samples_;  // in rank 0, when log.samples is set
  std::optional<TaskProbe> tasks_;
  std::unique_ptr<StallWatch> stall_watch_;  // outlives a save under way
  std::optional<SharedSave> shared_save_;
  std::unique_ptr<CheckpointSaver> saver_;  // of a process that writes checkpoints
  std::unique_ptr<Loader> loader_;
  std::string failed_status_;
  std::optional<TrainingState> saved_;  // the state of the newest checkpoint of this run
  size_t num_looks_ = 0;                // of rank 0 at the time, see must_look_at_time()
  bool ending_ = false;                 // no step follows
};

}  // namespace lmtrain
