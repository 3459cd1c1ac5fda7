#include "training/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <numeric>

#include "base/activities.h"
#include "base/elapsed.h"
#include "base/error.h"
#include "base/log.h"
#include "base/start_times.h"
#include "base/stop.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/retention.h"
#include "checkpoint/run_config.h"
#include "checkpoint/share_state.h"
#include "device/device_memory.h"
#include "device/failure.h"
#include "device/torch_headers.h"
#include "eval/evaluate.h"
#include "optim/guard.h"
#include "training/expected_loss.h"
#include "training/load_run.h"
#include "training/micro_batch_limits.h"
#include "training/preflight.h"

namespace lmtrain {
namespace {

// Parts of train.time after which a run looks whether it will end in time.
constexpr double kLooks[] = {0.15, 0.4, 0.65, 0.85, 0.95};
// A difference is worth a new plan from this part of train.time on, and from so many seconds on.
constexpr double kNoticed = 0.005;
constexpr double kNoticedSeconds = 0.1;
// The rest of a run becomes at most so many times longer or shorter at one look, since the first
// steps and evaluations may mislead.
constexpr int64_t kMostChange = 4;
// What is kept for the end of the process: seconds, and a part of train.time.
constexpr double kEndSeconds = 0.2;
constexpr double kEndShare = 0.002;

}  // namespace

// ---- The run ----

Trainer::Trainer(Config config, PreparedData data, const RunFolder& run,
                 std::optional<int64_t> checkpoint, std::optional<TrainingDuration> trial,
                 Processes& processes)
    : config_(std::move(config)),
      data_(std::move(data)),
      run_(run),
      checkpoint_(checkpoint),
      train_shard_(data_.train_shard, /*verify_tokens=*/false),
      processes_(processes),
      shards_(processes_, config_),
      engine_(config_, share(), shards_.owned(), shards_.held_gradient()),
      started_(std::chrono::steady_clock::now()),
      reducer_(make_gradient_reducer(processes_, config_.parallel, shards_, engine_.model(),
                                     engine_.gradient())),
      consensus_(processes_, started_) {
  if (data_.eval_shard) eval_shard_.emplace(*data_.eval_shard, /*verify_tokens=*/false);
  eval_sets_ = eval_sets_of(config_.data, data_);
  if (shards_.divides_weights() && &engine_.evaluation_model() != &engine_.model())
    evaluation_weights_ =
        read_divided_weights(processes_, shards_, engine_.evaluation_model(), /*gradient=*/{});
  start_times().end_phase("model");
  load();
  const RunClock now = clock();
  lr_schedule_.emplace(config_.lr_schedule, config_.optimizer.peak_lr(), now);
  rules_.log = Cadence(config_.log.every);
  rules_.evaluate = Cadence(config_.eval.every);
  rules_.save = SaveSchedule(config_, *lr_schedule_);
  if (trial) {  // no early stop ends a trial
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

void Trainer::load() {
  state_ = load_run(config_, data_, run_, checkpoint_, engine_, processes_, shards_);
  start_times().end_phase("weights");
  saved_ = checkpoint_ ? std::optional(state_) : std::nullopt;
  BatchOrderSpec spec = order_spec(config_, data_, train_shard_, state_);
  spec.poll = [this] { poll_planning(); };
  order_ = std::make_unique<BatchOrder>(spec);
  start_times().end_phase("order");
  if (config_.train.epochs) rules_.num_batches = order_->num_batches();
}

RunClock Trainer::clock() const {
  const bool has_replans = !state_.replans.empty();
  return run_clock(config_, *order_, has_replans ? state_.replans.back().pace : std::nullopt)
      .after(static_cast<double>(state_.step), static_cast<double>(state_.tokens), state_.elapsed);
}

void Trainer::poll_planning() const {
  if (log_) return;  // after a rollback the run has trained steps, which it must save first
  throw_if_stopped();
  const std::optional<double>& most = config_.train.max_time;
  if (processes_.is_first() && most && seconds_since(started_) >= *most) throw StopRequested{};
}

Due Trainer::due_since(const RunClock& before) const {
  const bool at_last = options_.last_step && state_.step >= *options_.last_step;
  return due_after(
      rules_, before,
      {.clock = clock(),
       .next_batch = state_.batch,
       .seconds = consensus_.seconds(),
       .signalled = at_last || consensus_.signal() != 0,
       .without_gain = state_.eval_step == state_.step ? state_.evaluations.without_gain : 0});
}

std::optional<int64_t> Trainer::eval_targets() const {
  if (!eval_shard_) return std::nullopt;
  return evaluation_targets(*eval_shard_, *config_.eval.tokens, eval_sets_);
}

RunOutcome Trainer::run(TrainingOptions options) {
  options_ = std::move(options);
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
    failed_status_ = log_->failed(state_, failure, options_.changed_settings);
    throw;
  }
  const bool is_part = trial || options_.last_step;
  if (!is_part) log_->summarize(state_, saved_ ? std::optional(saved_->step) : std::nullopt, why);
  const RunEnd end = run_end(why, state_.eval_step == state_.step, consensus_.signal());
  return {end.exit_code, log_->ended(state_, end, is_part), end.reason};
}

std::optional<RunOutcome> Trainer::already_done(Stop why) {
  const std::string status = log_->done_status(state_);
  // The last evaluation is missing: it was interrupted, or the run has been made shorter since.
  if (status.empty() && state_.eval_step != state_.step) return std::nullopt;
  log_->note_finished(state_, why);
  run_.remove_unfinished();
  return RunOutcome{0, log_->finished_before(state_, why, status, options_.changed_settings)};
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
  log_->started(state_, resumed, left_behind, options_.changed_settings);
  stall_watch_ = std::make_unique<StallWatch>(
      processes_.is_first() ? std::optional(run_.events()) : std::nullopt, config_.log.stall);
  consensus_.refresh();
  start_times().end_phase("run folder");
  if (stop() == Stop::kNone) fit_micro_batches();
  start_times().end_phase("trial");
  // A process without time for a step leaves the evaluation to the process that resumes the run.
  const bool needs_evaluation = state_.step == 0 || state_.eval_pending;
  if (needs_evaluation && stop() != Stop::kMaxTime) evaluate_now();
  start_times().end_phase("evaluation");

  log_->begin_lap();
  // stop() is asked anew before each step: a signal may come during an evaluation or a save.
  for (;;) {
    if (is_replan_listed()) replan("train.replanned_at lists it");
    if (stop() != Stop::kNone) break;
    stall_watch_->run_is_at(state_.step, state_.batch);
    if (state_.guard.skips(state_.batch)) {  // it made the run roll back
      next_batch();
      ++state_.batch;
      continue;
    }
    const RunClock before = clock();
    const std::optional<AppliedStep> step = train_batch();
    const Due due = due_since(before);
    if (step) log_->first_step(state_, start_times().finish("step"));
    if (step) log_->update(state_, *step, {*order_, rules_, before, clock()}, due.log);
    if (step && consensus_.status() == StepStatus::kReplan) fit_to_time(before);
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
  const size_t made = count_paced_replans(state_);
  if (ends_run(why) && made < config_.train.replanned_at.size()) {
    log_warning(str("train.replanned_at lists a change of length at batch ",
                    config_.train.replanned_at[made], ", and the run has ended at batch ",
                    state_.batch,
                    ", as train.planned_tokens says: it is not the run of this "
                    "config"));
  }
  if (consensus_.signal() != 0) log_->signalled(state_, consensus_.signal());
  save_checkpoint();
  log_->begin_lap();
  if (saver_) saver_->wait();
  log_->add_save();
  // A trial is ranked by this evaluation. It comes after the save, so that the checkpoint is the
  // same as that of a run without trials.
  if (has_all_steps(why) && consensus_.signal() == 0) evaluate_now();
  return why;
}

// ---- The step ----

std::optional<AppliedStep> Trainer::train_batch() {
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  consensus_.begin_step(state_.elapsed);
  const RunClock before = clock();
  // 1. Sample.
  const Batch batch = next_batch();
  log_->add_wait(seconds_since(begin));
  // 2. Forward and backward.
  double loss = forward_and_backward(batch);
  if (options_.after_backward) options_.after_backward(batch, loss, engine_.gradient());
  // 3. Judge and clip. A step that the guard refuses ends here.
  const double grad_norm = shards_.gradient_norm(engine_.gradient());
  ++state_.batch;
  const Verdict verdict =
      judge_step(config_.guard, state_.guard, state_.loss_scale ? &*state_.loss_scale : nullptr,
                 batch.length, loss, grad_norm);
  if (verdict.action != Verdict::Action::kApply) {
    state_.elapsed = consensus_.end_step();
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
  consensus_.communicate([&] { shards_.gather_working(engine_.parameters()); });

  const double elapsed = consensus_.end_step();
  const double seconds = elapsed - state_.elapsed;
  ++state_.step;
  state_.tokens += batch.num_targets;
  state_.elapsed = elapsed;
  state_.loss = loss;
  note_update(config_.guard, state_.guard, batch.length, loss, grad_norm);
  if (state_.loss_scale) state_.loss_scale->on_update();
  return AppliedStep{loss,    grad_norm,           lr, batch.length, batch.num_targets,
                     seconds, consensus_.balance()};
}

Batch Trainer::next_batch() {
  const Activity waiting("waiting for data");
  try {
    return loader_->next();
  } catch (const Error&) {
    // Take part in the step without rows, so that the other processes learn of the error.
    Batch no_rows;
    no_rows.length = 1;
    engine_.forward_backward(no_rows, /*micro_rows=*/1, /*loss_scale=*/1, *reducer_);
    consensus_.exchange(no_losses(), StepStatus::kUnreadRows);
    save_and_end(std::current_exception());
  }
}

double Trainer::forward_and_backward(const Batch& batch) {
  for (;;) {
    const MicroBatchLimits limits = state_.micro;
    const std::optional<std::vector<double>> losses = compute_share(batch);
    const Activity exchanging("exchanging with the other processes");
    const StepStatus mine = !losses                  ? StepStatus::kSpoiledSum
                            : state_.micro != limits ? StepStatus::kLimits
                            : must_look_at_time()    ? StepStatus::kReplan
                                                     : StepStatus::kNone;
    const std::vector<double> all = consensus_.exchange(losses.value_or(no_losses()), mine);
    const StepStatus status = consensus_.status();
    if (status == StepStatus::kUnreadRows) save_and_end(/*error=*/nullptr);
    if (status >= StepStatus::kLimits) share_limits(processes_, state_.micro);
    reducer_->finish();
    consensus_.end_communication();
    if (status != StepStatus::kSpoiledSum) return std::accumulate(all.begin(), all.end(), 0.0);
  }
}

std::optional<std::vector<double>> Trainer::compute_share(const Batch& batch) {
  const Activity computing("computing forward and backward");
  for (;;) {
    try {
      return engine_.forward_backward(batch, micro_rows(config_, state_.micro, batch.length),
                                      state_.loss_scale ? state_.loss_scale->scale : 1, *reducer_);
    } catch (const std::exception& error) {
      if (!give_up_cudnn_attention(error, batch.length)) {
        const Failure failure = describe_failure(error);
        if (failure.kind != ErrorKind::kMemory) throw;
        if (!keep_less())
          log_->reduced_micro_batch(state_, reduce_micro_rows(config_, state_.micro, batch.length,
                                                              failure.cause, processes_.count()));
        reset_peak_memory(engine_.device());
      }
    }
    if (reducer_->has_begun()) return std::nullopt;
  }
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
  load();
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

void Trainer::begin_from_state() {
  log_->begin(state_);
  begin_loader();
}

void Trainer::begin_loader() {
  loader_.reset();
  loader_ = std::make_unique<Loader>(*order_, state_.batch,
                                     config_.train.epochs ? order_->num_batches() : -1, share());
}

void Trainer::fit_micro_batches() {
  const ReportReduction report = [this](const MicroBatchReduction& lowered) {
    log_->reduced_micro_batch(state_, lowered);
  };
  if (shards_.divides_weights()) {
    if (const std::optional<uint64_t> share = memory_share(engine_.device(), processes_)) {
      const std::vector<int64_t> lengths = order_->batch_lengths();
      fit_to_plan(config_, lengths, *share, state_.micro, report, processes_.count());
      if (!engine_.device().is_cpu())
        keep_swiglu_value_if_it_fits(config_, lengths, *share, state_.micro, processes_.count());
    }
  } else {
    fit_memory(config_, engine_.model(), order_->batch_lengths(), engine_.gradient(), state_.micro,
               report, processes_);
  }
  share_limits(processes_, state_.micro);
}

// ---- The length of a run with train.time ----

bool Trainer::must_look_at_time() const {
  const auto& ends_at = config_.train.ends_at;
  if (!ends_at || rules_.trial_end || options_.last_step || num_looks_ == std::size(kLooks))
    return false;
  // After a rollback the changes that the config lists come first. A batch to come that is left out
  // keeps its number.
  if (count_paced_replans(state_) < config_.train.replanned_at.size()) return false;
  const std::vector<int64_t>& skipped = state_.guard.skipped_batches;
  if (std::ranges::any_of(skipped, [&](int64_t batch) { return batch >= state_.batch; }))
    return false;
  const std::chrono::duration<double> whole = *ends_at - started_;
  return seconds_since(started_) >= kLooks[num_looks_] * whole.count();
}

void Trainer::fit_to_time(const RunClock& before) {
  ++num_looks_;
  if (state_.tokens >= state_.total.tokens) return;
  std::string reason;
  std::string changed;  // the new length; empty: it stays
  const auto add_replan = [&](TrainConfig& train, int64_t tokens) {
    train.planned_tokens.push_back(state_.total.tokens);
    train.replanned_at.push_back(state_.batch);
    train.tokens = tokens;
  };
  if (processes_.is_first()) {
    const std::chrono::steady_clock::time_point end = *config_.train.ends_at;
    const double whole = std::chrono::duration<double>(end - started_).count();
    const double left = whole - seconds_since(started_) - kEndSeconds - kEndShare * whole;
    const RunAhead ahead = {*order_, rules_, before, clock()};
    const std::optional<TimeCheck> check = log_->check_time(left, state_, ahead);
    if (check && std::abs(check->late) > std::max(kNoticedSeconds, kNoticed * whole)) {
      const int64_t rest = state_.total.tokens - state_.tokens;
      const int64_t tokens =
          state_.tokens + std::clamp(check->tokens, rest / kMostChange + 1, rest * kMostChange);
      reason =
          str("at its present speed the run would end ", printed("%.1f", std::abs(check->late)),
              " s ", check->late > 0 ? "after" : "before", " train.time");
      try {
        // Not config_, whose max_time is what is left of it for this attempt.
        Config config = read_run_config(run_).config;
        add_replan(config.train, tokens);
        write_run_config(run_, config, state_.step);
        changed = str(tokens);
      } catch (const Error& error) {
        log_warning(
            str("the run keeps its length, since its config cannot be written: ", error.what()));
      }
    }
  }
  changed = processes_.broadcast(changed);
  if (changed.empty()) return;
  add_replan(config_.train, std::stoll(changed));
  replan(reason);
}

bool Trainer::is_replan_listed() const {
  const std::vector<int64_t>& at = config_.train.replanned_at;
  const size_t made = count_paced_replans(state_);
  return made < at.size() && state_.batch >= at[made];
}

void Trainer::replan(const std::string& reason) {
  const int64_t was = state_.total.tokens;
  loader_.reset();  // it reads the order that is extended
  replan_at_pace(state_, clock(),
                 run_length(config_.train, count_paced_replans(state_) + 1).tokens);
  order_->replan(state_.replans.back(), [this] { poll_planning(); });
  begin_loader();
  if (!processes_.is_first()) return;
  try {
    write_expectation(config_, data_, run_, static_cast<double>(order_->num_targets()));
  } catch (const Error& error) {
    log_warning(str("the forecast stays that of the length before: ", error.what()));
  }
  log_->replanned(state_, was, reason);
}

// ---- Evaluation ----

template <class Work>
auto Trainer::saving_first(const Work& work) {
  try {
    return work();
  } catch (const UnreadRows& unread) {
    save_and_end(unread.is_own() ? std::current_exception() : nullptr);
  } catch (const std::exception&) {  // such as out of memory: the weights are sound
    if (!processes_.is_only()) throw;
    save_and_end(std::current_exception());
  }
}

void Trainer::evaluate_now() {
  shards_.gather_masters(engine_.parameters());
  if (state_.eval_step == state_.step) return;
  log_->begin_lap();
  if (!eval_shard_) {
    if (!state_.eval_step) log_->no_held_out_text();
    state_.eval_pending = true;  // until the samples are there
    const std::vector<SampledText> samples = saving_first([&] { return write_samples(); });
    state_.eval_pending = false;
    state_.eval_step = state_.step;
    log_->sampled(state_, samples);
    return log_->begin_lap();
  }
  const auto result = evaluate_held_out();
  const auto tasks = result ? saving_first([&] { return ask_tasks(); }) : std::nullopt;
  const std::vector<SampledText> samples =
      tasks ? saving_first([&] { return write_samples(); }) : std::vector<SampledText>();
  consensus_.refresh();
  state_.eval_pending = !tasks;
  if (!tasks) return;
  state_.eval_step = state_.step;
  state_.eval_loss = result->all.loss();
  const bool saved = saved_ && saved_->step == state_.step;
  note_evaluation(state_.evaluations, {state_.step, result->all.loss()}, config_.eval, saved);
  log_->evaluated(state_, *result, *tasks);
  log_->sampled(state_, samples);
  if (!std::isfinite(result->all.loss())) {
    require_only_loss_lost(config_, first_bad_weight(), state_.step, has_all_steps(stop()));
    log_->eval_loss_not_finite(state_);
  }
  // The end of a trial is saved already: without this evaluation, as in a run without trials.
  const bool ends_trial = rules_.trial_end && ending_;
  if (config_.checkpoint.keep_best == 0 || ends_trial) return;
  if (saved && processes_.is_first()) remove_old_checkpoints(run_, state_, config_.checkpoint);
  if (is_lowest(state_.evaluations, state_.step)) save_checkpoint();
}

std::optional<Evaluation> Trainer::evaluate_held_out() {
  Activity evaluating("evaluating");
  const auto keep_going = [&] {
    evaluating.get_further();
    return stop_signal() == 0;
  };
  state_.eval_pending = true;  // a run that ends during the evaluation makes it when it resumes
  return saving_first([&] {
    return evaluate(engine_.evaluation_model(), *eval_shard_, eval_sets_,
                    evaluation_options(config_, state_.micro), keep_going, processes_);
  });
}

std::vector<SampledText> Trainer::write_samples() {
  if (!samples_) return {};
  return samples_->write(engine_.evaluation_model(), [] { return stop_signal() == 0; });
}

std::optional<std::vector<TaskResult>> Trainer::ask_tasks() {
  if (!tasks_) return std::vector<TaskResult>();
  auto results = tasks_->ask(engine_.evaluation_model(),
                             evaluation_options(config_, state_.micro).batch_tokens,
                             [] { return stop_signal() == 0; });
  // A signal may have reached only some of the processes.
  const std::vector<double> whole = processes_.all_gather_values({results ? 1.0 : 0.0});
  if (std::find(whole.begin(), whole.end(), 0.0) != whole.end()) results.reset();
  return results;
}

// ---- Checkpoints ----

void Trainer::prepare_saves() {
  shared_save_.emplace(processes_, shards_, find_writers(processes_, shards_, run_), run_, texts_,
                       engine_.layout(), config_.checkpoint);
  if (!shared_save_->writes()) return;
  saver_ = std::make_unique<CheckpointSaver>(
      config_.checkpoint.async,
      [this](const TrainingState& saved, double seconds) { log_->saved(saved, seconds); },
      [this](const TrainingState& lost, const std::exception_ptr& failure) {
        save_failed(lost, failure);
      });
}

std::string Trainer::first_bad_weight() const {
  return shards_.first_of_all(
      first_bad_tensor(engine_.layout(), engine_.parameters().master(), shards_.owned()));
}

void Trainer::save_checkpoint() {
  const bool is_wanted = !saved_ || must_save_again(*saved_, state_);
  if (is_wanted) log_->begin_lap();
  // wait() throws here if the last save failed and the run must end, before the other processes
  // begin a new save.
  if (is_wanted && saver_) saver_->wait();
  // Only rank 0 learns that a save has failed, so rank 0 decides for all whether to save again.
  const auto attempt = shared_save_->new_attempt(is_wanted);
  if (!attempt) return;
  const Activity saving("copying weights and optimizer for the checkpoint");
  require_finite_weights(config_, first_bad_weight(), state_.step);
  CheckpointSnapshot snapshot =
      shared_save_->snapshot(state_, engine_.parameters(), engine_.optimizer());
  saved_ = state_;
  try {
    log_->sync();
  } catch (const Error&) {
    shared_save_->call_off(*attempt);
    return save_failed(state_, std::current_exception());
  }
  if (saver_) {
    saver_->save(state_, [this, attempt, snapshot = std::move(snapshot)] {
      shared_save_->write(*attempt, snapshot);
    });
  }
  log_->add_save();
  log_->running(state_);
}

void Trainer::save_and_end(const std::exception_ptr& error) {
  ending_ = true;  // so that a save that fails is an error, whatever checkpoint.on_save_error is
  try {
    if (reducer_->has_begun()) reducer_->finish();  // the other processes wait for this sum
    save_checkpoint();
    if (saver_) saver_->wait();
    processes_.barrier();  // rank 0 has saved
  } catch (const std::exception& failure) {
    log_warning(
        str("the steps since the last checkpoint are lost: ", describe_failure(failure).message));
    if (!error) throw;
  }
  if (error) std::rethrow_exception(error);
  processes_.barrier();  // throws ProcessLost, since the process with the error ends
  throw Error(ErrorKind::kInternal, "a process that could not read its rows goes on");
}

void Trainer::save_failed(const TrainingState& lost, const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    // Whatever checkpoint.on_save_error is, the run ends with an error if this was its last
    // checkpoint, or if another process is lost.
    const bool ends = config_.checkpoint.on_save_error == SaveErrorPolicy::kStop ||
                      (ending_ && lost.step == state_.step) ||
                      dynamic_cast<const ProcessLost*>(&error) != nullptr;
    log_->save_failed(lost, describe_failure(error).message, /*goes_on=*/!ends);
    if (ends) throw;
    if (saved_ && saved_->step == lost.step) saved_.reset();
  }
}

}  // namespace lmtrain
