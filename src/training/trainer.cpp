#include "training/trainer.h"

#include "base/activities.h"
#include "base/elapsed.h"
#include "base/error.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/share_state.h"
#include "device/device_memory.h"
#include "device/failure.h"
#include "device/torch_headers.h"
#include "training/micro_batch_limits.h"
#include "training/preflight.h"
#include "training/restore.h"

namespace lmtrain {

Trainer::Trainer(Config config, PreparedData data, const RunFolder& run,
                 std::optional<int64_t> checkpoint, std::optional<TrainingDuration> trial,
                 Processes& processes)
    : config_(std::move(config)),
      data_(std::move(data)),
      run_(run),
      checkpoint_(checkpoint),
      train_shard_(data_.train_shard, /*verify_tokens=*/false),
      lines_(exchange_lines(processes, config_)),
      shards_(processes, config_, lines_),
      engine_(config_, shards_.owned(), shards_.held_gradient()),
      started_(std::chrono::steady_clock::now()),
      processes_(processes),
      step_sum_(processes_, config_.parallel, engine_, shards_, lines_),
      agreement_(processes_, started_) {
  if (data_.eval_shard) eval_shard_.emplace(*data_.eval_shard, /*verify_tokens=*/false);
  eval_sets_ = eval_sets_of(config_.data, data_);
  if (shards_.divides_weights()) bring_weights_by_pieces();
  restore();
  const RunClock now = clock();
  lr_schedule_.emplace(config_.lr_schedule, config_.optimizer.lr, now);
  rules_.log = Cadence(config_.log.every);
  rules_.evaluate = Cadence(config_.eval.every);
  rules_.save = SaveSchedule(config_, *lr_schedule_);
  if (trial) {  // it is trained to its end
    rules_.trial_end = now.resolve(*trial);
  } else if (config_.eval.early_stop) {
    rules_.patience = config_.eval.early_stop->patience;
  }
  rules_.max_seconds = config_.train.max_time;
  log_.emplace(config_, run_, eval_targets(), started_, processes_.count(), processes_.rank());
  const Tokenizer tokenizer = Tokenizer::load(data_.tokenizer_model);
  texts_ = checkpoint_texts(config_, tokenizer);
  if (config_.log.samples && processes_.is_first()) samples_.emplace(config_, tokenizer);
  if (config_.eval.tasks) tasks_.emplace(config_, tokenizer);
}

Trainer::~Trainer() = default;

void Trainer::bring_weights_by_pieces() {
  const auto read_by_pieces = [&](Llama& model, const at::Tensor& gradient) {
    auto weights = std::make_unique<ShardedWeights>(processes_, shards_, engine_.layout(),
                                                    model.parameters().working(), gradient);
    model.read_by_pieces(*weights);
    return weights;
  };
  weights_ = read_by_pieces(engine_.model(), engine_.gradient());
  if (&engine_.evaluation_model() != &engine_.model())
    evaluation_weights_ = read_by_pieces(engine_.evaluation_model(), {});
}

void Trainer::restore() {
  state_ = restore_run(config_, data_, run_, checkpoint_, engine_, processes_, shards_);
  saved_ = checkpoint_ ? std::optional(state_) : std::nullopt;
  BatchOrderSpec spec = order_spec(config_, data_, train_shard_, state_);
  spec.poll = [this] { poll_planning(); };
  order_ = std::make_unique<BatchOrder>(spec);
  if (config_.train.epochs) rules_.num_batches = order_->num_batches();
}

void Trainer::poll_planning() const {
  if (log_) return;  // a run that goes back has steps to save
  throw_if_stopped();
  const std::optional<double>& most = config_.train.max_time;
  if (processes_.is_first() && most && seconds_since(started_) >= *most) throw StopRequested{};
}

Due Trainer::due_since(const RunClock& before) const {
  const bool at_last = last_step && state_.step >= *last_step;
  return due_after(
      rules_, before,
      {.clock = clock(),
       .next_batch = state_.batch,
       .seconds = agreement_.seconds(),
       .signalled = at_last || agreement_.signal() != 0,
       .without_gain = state_.eval_step == state_.step ? state_.evaluations.without_gain : 0});
}

std::optional<int64_t> Trainer::eval_targets() const {
  if (!eval_shard_) return std::nullopt;
  return evaluation_targets(*eval_shard_, *config_.eval.tokens, eval_sets_);
}

RunOutcome Trainer::run() {
  const bool trial = rules_.trial_end.has_value();
  Stop why = stop();
  if (ends_run(why) && !trial) {
    const std::optional<RunOutcome> outcome =
        processes_.is_first() ? already_done(why) : std::nullopt;
    if (processes_.broadcast(outcome ? "done" : "") == "done")
      return outcome.value_or(RunOutcome{});
  }
  try {
    why = train();
  } catch (const std::exception& error) {
    const Failure failure = describe_failure(error);
    log_progress_done();
    if (saver_) saver_->wait_or_warn();
    failed_status_ = log_->failed(state_, failure, changed_settings);
    throw;
  }
  const bool is_part = trial || last_step;
  if (!is_part) log_->summarize(state_, saved_ ? std::optional(saved_->step) : std::nullopt, why);
  const RunEnd end = run_end(why, state_.eval_step == state_.step, agreement_.signal());
  return {end.exit_code, log_->ended(state_, end, is_part)};
}

std::optional<RunOutcome> Trainer::already_done(Stop why) {
  const std::string status = log_->done_status(state_);
  // The last evaluation is still to come, or, where the run was made shorter, was not due before.
  if (status.empty() && state_.eval_step != state_.step) return std::nullopt;
  log_->note_finished(state_, why);
  run_.remove_unfinished();
  return RunOutcome{0, log_->finished_before(state_, why, status, changed_settings)};
}

Stop Trainer::train() {
  const bool resumed = checkpoint_.has_value();
  if (processes_.is_first()) {
    run_.remove_unfinished();
    lmtrain::create_directories(run_.checkpoints());
    if (resumed && stop() == Stop::kNone) make_room_for_checkpoint(config_, run_, state_);
  }
  const std::string left_behind = resumed ? "" : log_->put_metrics_aside();
  begin_from_state();
  prepare_saves();
  log_->started(state_, resumed, left_behind, changed_settings);
  stall_watch_ = std::make_unique<StallWatch>(
      processes_.is_first() ? std::optional(run_.events()) : std::nullopt, config_.log.stall);
  agreement_.refresh();
  if (stop() == Stop::kNone) fit_micro_batches();
  // A run without the time for a step leaves this to the process that goes on with it.
  const bool needs_evaluation = state_.step == 0 || state_.eval_pending;
  if (needs_evaluation && stop() != Stop::kMaxTime) evaluate_now();

  log_->begin_lap();
  // Asked anew before each step: a signal may have come during the evaluation or the save.
  while (stop() == Stop::kNone) {
    stall_watch_->run_is_at(state_.step, state_.batch);
    if (state_.guard.skips(state_.batch)) {
      next_batch();
      ++state_.batch;
      continue;
    }
    const RunClock before = clock();
    const std::optional<AppliedStep> step = train_batch();
    const Due due = due_since(before);
    if (step) log_->update(state_, *step, {*order_, rules_, before, clock()}, due.log);
    state_.kept = due.keep || (state_.kept && !step);
    if (due.evaluate) evaluate_now();
    if (due.save) save_checkpoint();
    if (saver_) saver_->poll();
    log_->refresh_status(state_);
  }
  log_progress_done();
  ending_ = true;
  const Stop why = stop();
  if (ends_run(why)) {
    evaluate_now();
    require_finite_end(config_, first_bad_weight(), state_.step, state_.loss);
  }
  if (agreement_.signal() != 0) log_->signalled(state_, agreement_.signal());
  save_checkpoint();
  log_->begin_lap();
  if (saver_) saver_->wait();
  log_->add_save();
  // A trial is ranked by it; the checkpoint that the run would go on from knows nothing of it.
  if (has_all_steps(why) && agreement_.signal() == 0) evaluate_now();
  return why;
}

void Trainer::begin_from_state() {
  log_->begin(state_);
  loader_.reset();
  loader_ = std::make_unique<Loader>(
      *order_, state_.batch, config_.train.epochs ? order_->num_batches() : -1, step_sum_.share());
}

void Trainer::fit_micro_batches() {
  const ReportReduction report = [this](const MicroBatchReduction& lowered) {
    log_->reduced_micro_batch(state_, lowered);
  };
  if (shards_.divides_weights()) {
    if (const auto available = available_memory(engine_.device())) {
      fit_to_plan(
          config_, order_->batch_lengths(),
          *available / static_cast<uint64_t>(sharers_of_memory(engine_.device(), processes_)),
          state_.micro, report, processes_.count());
    }
  } else {
    fit_memory(config_, engine_.model(), order_->batch_lengths(), engine_.gradient(), state_.micro,
               report, processes_);
  }
  share_limits(processes_, state_.micro);
}

double Trainer::forward_and_backward(const Batch& batch) {
  for (;;) {
    const MicroBatchLimits limits = state_.micro;
    const std::vector<double> losses = compute_share(batch);
    const Activity exchanging("exchanging with the other processes");
    const News mine = state_.micro != limits ? News::kLimits : News::kNone;
    const double loss = StepSum::loss_of(
        agreement_.exchange(losses, step_sum_.is_spoiled() ? News::kSpoiledSum : mine));
    const News news = agreement_.news();
    if (news == News::kUnreadRows) save_and_end(/*error=*/nullptr);
    if (news != News::kNone) share_limits(processes_, state_.micro);
    step_sum_.sum_gradient();
    agreement_.end_communication();
    if (news != News::kSpoiledSum) return loss;
  }
}

std::vector<double> Trainer::compute_share(const Batch& batch) {
  const Activity computing("computing forward and backward");
  for (;;) {
    try {
      return step_sum_.compute(batch, micro_rows(config_, state_.micro, batch.length),
                               state_.loss_scale ? state_.loss_scale->scale : 1);
    } catch (const std::exception& error) {
      const Failure failure = describe_failure(error);
      if (failure.kind != ErrorKind::kMemory) throw;
      if (!keep_less())
        log_->reduced_micro_batch(state_, reduce_micro_rows(config_, state_.micro, batch.length,
                                                            failure.cause, processes_.count()));
      reset_peak_memory(engine_.device());
    }
    if (step_sum_.is_spoiled()) return step_sum_.no_losses();
  }
}

Batch Trainer::next_batch() {
  const Activity waiting("waiting for data");
  try {
    return loader_->next();
  } catch (const Error&) {
    step_sum_.take_part_without_rows();
    agreement_.exchange(step_sum_.no_losses(), News::kUnreadRows);
    save_and_end(std::current_exception());
  }
}

std::optional<AppliedStep> Trainer::train_batch() {
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  agreement_.begin_step(state_.elapsed);
  const RunClock before = clock();
  // 1. Sample.
  const Batch batch = next_batch();
  log_->add_wait(seconds_since(begin));
  // 2. Forward and backward.
  double loss = forward_and_backward(batch);
  if (after_backward) after_backward(batch, loss, engine_.gradient());
  // 3. Judge and clip. Nothing below is reached by a loss or gradient that the guard refuses.
  const double grad_norm = shards_.gradient_norm(engine_.gradient());
  ++state_.batch;
  const Verdict verdict =
      judge_step(config_.guard, state_.guard, state_.loss_scale ? &*state_.loss_scale : nullptr,
                 batch.length, loss, grad_norm);
  if (verdict.action != Verdict::Action::kApply) {
    state_.elapsed = agreement_.end_step();
    const std::string tensor = shards_.first_of_all(
        first_bad_tensor(engine_.layout(), engine_.gradient(), shards_.owned()));
    refuse_step(describe_refused(batch, loss, grad_norm, tensor, data_.document_files), verdict);
    return std::nullopt;
  }
  const double grad_scale = engine_.clip(grad_norm);
  // 4. Update.
  const double lr = lr_schedule_->at(before.done());
  const UpdateStep update{state_.step + 1, lr, grad_scale,
                          before.after(1, static_cast<double>(batch.num_targets))};
  const Activity updating("updating the weights");
  engine_.update(update);
  agreement_.communicate([&] { shards_.gather_working(engine_.parameters()); });

  const double elapsed = agreement_.end_step();
  const double seconds = elapsed - state_.elapsed;
  ++state_.step;
  state_.tokens += batch.num_targets;
  state_.elapsed = elapsed;
  state_.loss = loss;
  note_update(config_.guard, state_.guard, batch.length, loss, grad_norm);
  if (state_.loss_scale) state_.loss_scale->on_update();
  return AppliedStep{loss,    grad_norm,           lr, batch.length, batch.num_targets,
                     seconds, agreement_.balance()};
}

void Trainer::refuse_step(RefusedBatch refused, const Verdict& verdict) {
  if (verdict.cause == Verdict::Cause::kOverflow) {
    refused.loss_scale = state_.loss_scale->scale;
    state_.loss_scale->on_overflow();
  }
  const bool spike = verdict.cause == Verdict::Cause::kSpike;
  if (spike) log_->spike(state_, refused, verdict.reason);
  if (verdict.action == Verdict::Action::kRollback) {
    roll_back(refused, verdict.reason);
    return;
  }
  if (verdict.action == Verdict::Action::kSkip || !spike)
    log_->skipped(state_, refused, verdict.reason);
  if (verdict.action == Verdict::Action::kStop)
    throw stopped_by_guard(state_.step, refused, verdict);
  if (verdict.counts_as_skip && ++state_.guard.skips_in_a_row >= config_.guard.max_skips) {
    throw diverged(str(state_.guard.skips_in_a_row,
                       " batches in a row could not be applied (guard.max_skips)"));
  }
}

void Trainer::roll_back(const RefusedBatch& refused, const std::string& reason) {
  const TrainingState left = state_;
  if (saver_) saver_->wait();
  checkpoint_ = newest_checkpoint(run_, processes_);
  loader_.reset();  // it reads the order that is replaced
  restore();
  keep_after_rollback(state_, left, refused.batch);
  begin_from_state();
  log_->rolled_back(state_, refused, reason, left.step,
                    checkpoint_ ? std::optional(run_.checkpoint(*checkpoint_)) : std::nullopt);
  if (state_.guard.rollbacks_in_a_row > config_.guard.max_skips) {
    throw diverged(str("gone back to step ", state_.step, " ", state_.guard.rollbacks_in_a_row,
                       " times (guard.max_skips)"));
  }
  if (state_.step == 0 || state_.eval_pending) evaluate_now();
}

}  // namespace lmtrain
