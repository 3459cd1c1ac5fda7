#include "run/trainer.h"

#include <cmath>

#include "base/error.h"
#include "base/signal.h"
#include "base/terminal/log.h"
#include "base/text.h"
#include "device/device.h"
#include "device/device_memory.h"
#include "device/torch_headers.h"
#include "run/given_model.h"
#include "run/metrics_check.h"
#include "run/report.h"
#include "train/eval_share.h"
#include "train/failure.h"
#include "train/resolve.h"

namespace lmtrain {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The line of status.json if it says that the run is done at `step`, with its checkpoint in this
// folder. Empty when it says anything else (a run that was copied or moved names the folder it came
// from), is missing, damaged or no file: it is written again then.
std::string done_status(const RunFolder& run, int64_t step) {
  if (!is_file(run.status())) return "";
  const std::string text = read_file(run.status());
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto says = [&](const char* key, const nlohmann::json& value) {
    return json.is_object() && json.contains(key) && json[key] == value;
  };
  const bool said = says("state", "done") && says("step", step) &&
                    says("checkpoint", run.checkpoint(step).string());
  return said ? text.substr(0, text.find('\n')) : "";
}

bool same_length(const RunLength& a, const RunLength& b) {
  return a.steps == b.steps && a.tokens == b.tokens && a.epochs == b.epochs;
}

}  // namespace

Trainer::Trainer(Config config, PreparedData data, const RunFolder& run,
                 std::optional<int64_t> checkpoint, std::optional<TrainingDuration> trial)
    : config_(std::move(config)),
      data_(std::move(data)),
      run_(run),
      checkpoint_(checkpoint),
      train_shard_(data_.train_shard, /*verify_tokens=*/false),
      engine_(config_),
      peak_flops_(known_peak_flops(engine_.device(), engine_.parameters().working().scalar_type())),
      started_(Clock::now()),
      status_written_(started_),
      lap_begin_(started_) {
  if (data_.eval_shard) eval_shard_.emplace(*data_.eval_shard, /*verify_tokens=*/false);
  restore(checkpoint_);
  eval_every_ = Cadence(config_.eval.every);
  log_every_ = Cadence(config_.log.every);
  const RunClock now = clock();
  lr_schedule_.emplace(config_.lr_schedule, config_.optimizer.lr, now);
  saves_ = SaveSchedule(config_, *lr_schedule_);
  if (trial) trial_end_ = now.resolve(*trial);
  const auto flops_per_token = [layout = engine_.layout()](int64_t length) {
    return layout.causal_flops_per_token(length);
  };
  if (eval_shard_) eval_targets_ = evaluation_targets(*eval_shard_, *config_.eval.tokens);
  time_left_.emplace(
      [=, tokens_per_step = now.tokens_per_step](int64_t length) {
        return tokens_per_step * flops_per_token(length);
      },
      evaluation_cost(config_, eval_targets_) * flops_per_token(config_.sequence.max_length));
  texts_ = checkpoint_texts(config_, Tokenizer::load(data_.tokenizer_model));
}

Trainer::~Trainer() = default;

void Trainer::restore(std::optional<int64_t> checkpoint) {
  const RunLength length = run_length(config_.train);
  if (checkpoint) {
    state_ =
        load_checkpoint(run_.checkpoint(*checkpoint), engine_.parameters(), engine_.optimizer());
  } else {
    state_ = {};
    state_.seed = config_.seed;
    state_.fingerprint = data_.fingerprint;
    state_.planned = length;
    state_.total = length;
    if (config_.init_from) {
      engine_.reset_optimizer();
      load_initial_weights(*config_.init_from, engine_.parameters(), run_.identity().init_from);
    } else {
      engine_.initialize(config_.seed);
    }
  }
  // A micro-batch asked for anew is tried anew.
  if (state_.micro.micro_tokens != *config_.batch.micro_tokens) state_.micro = {};
  if (!same_length(length, state_.total)) {
    RunLength left = length;
    if (length.steps > 0) left.steps = std::max<int64_t>(1, length.steps - state_.step);
    if (length.tokens > 0) left.tokens = std::max<int64_t>(1, length.tokens - state_.tokens);
    state_.replans.push_back({state_.batch, left});
    state_.total = length;
  }
  order_ = std::make_unique<BatchOrder>(BatchOrderSpec{.shard = train_shard_,
                                                       .sources = data_.sources,
                                                       .fingerprint = data_.fingerprint,
                                                       .sequence = config_.sequence,
                                                       .data = config_.data,
                                                       .data_seed = config_.data_seed(),
                                                       .batch_tokens = config_.batch.tokens,
                                                       .run = state_.planned,
                                                       .replans = state_.replans});
  if (config_.precision != PrecisionSetting::kFp16) {
    state_.loss_scale.reset();
  } else if (!state_.loss_scale) {
    state_.loss_scale.emplace();
  }
}

RunClock Trainer::clock() const {
  return run_clock(config_, *order_)
      .after(static_cast<double>(state_.step), static_cast<double>(state_.tokens), state_.elapsed);
}

bool Trainer::finished() const {
  if (config_.train.epochs) return state_.batch >= order_->num_batches();
  const RunClock now = clock();
  return now.done() >= now.total;
}

bool Trainer::at_end() const { return finished() || (trial_end_ && clock().done() >= *trial_end_); }

RunOutcome Trainer::run() {
  if (finished() && !trial_end_) {
    if (std::optional<RunOutcome> outcome = already_done()) return *outcome;
  }
  try {
    train();
  } catch (const std::exception& error) {
    const Failure failure = describe_failure(error);
    log_progress_done();
    // The disk may be what failed; the error itself matters more than its record.
    try {
      if (saver_) saver_->wait();
    } catch (const std::exception& second) {
      log_warning(describe_failure(second).message);
    }
    try {
      if (log_) log_->event("end", state_, failure.message);
      const bool diverged = failure.kind == ErrorKind::kNumeric;
      failed_status_ =
          write_status(run_, diverged ? "diverged" : "failed", state_, exit_code(failure.kind));
    } catch (const Error& second) {
      log_warning(second.what());
    }
    throw;
  }
  if (!trial_end_) report_end();
  const bool done = at_end() && state_.eval_step == state_.step;
  const int signal = stop_signal();
  const int code = done ? 0 : signal != 0 ? 128 + signal : kExitMaxTime;
  const std::string reason = done ? "done" : signal != 0 ? str("signal ", signal) : "max_time";
  log_->event("end", state_, reason,
              {{"trained_seconds", state_.elapsed - elapsed_at_start_},
               {"waited_seconds", seconds_waited_}});
  if (!done && !trial_end_) {
    log_note(str("stopped by ", reason, " after step ", state_.step,
                 "; go on with: lmtrain resume ", shell_quoted(run_.path().string())));
  }
  return {code, write_status(run_, done ? "done" : "stopped", state_, code)};
}

std::optional<RunOutcome> Trainer::already_done() {
  const std::string status = done_status(run_, state_.step);
  const bool said = !status.empty();
  // The last evaluation is still to come, or, where the run was made shorter, was not due before.
  if (!said && state_.eval_step != state_.step) return std::nullopt;
  log_note(str("the run in ", run_.path().string(), " is finished: ", state_.step, " steps, ",
               state_.tokens, " tokens"));
  log_note(next_commands(run_.path(), config_, eval_shard_.has_value()));
  run_.remove_unfinished();
  if (!changed_settings.empty()) {
    RunLog(run_, state_, /*tensorboard=*/false)
        .event("resume", state_, "the run is finished", {{"changed", changed_settings}});
  }
  // A run that was killed in its last moment has not said that it is done.
  return RunOutcome{0, said ? status : write_status(run_, "done", state_, 0)};
}

void Trainer::train() {
  const bool resumed = checkpoint_.has_value();
  run_.remove_unfinished();
  lmtrain::create_directories(run_.checkpoints());
  const std::string begins_again = resumed ? "" : put_metrics_aside(run_);
  if (!begins_again.empty()) log_warning(begins_again);
  begin_from_state();
  saver_ = std::make_unique<CheckpointSaver>(
      run_, config_.checkpoint, texts_, engine_.layout(),
      [this](const TrainingState& saved, double seconds) {
        log_->event("save", saved, "",
                    {{"checkpoint", run_.checkpoint(saved.step).string()}, {"seconds", seconds}});
        if (config_.checkpoint.async) time_left_->set_writing(seconds);
      },
      [this](const TrainingState& lost, const std::exception_ptr& failure) {
        save_failed(lost, failure);
      });
  nlohmann::ordered_json fields = {{"version", LMTRAIN_VERSION},
                                   {"device", config_.device},
                                   {"precision", name_of(config_.precision)}};
  if (!changed_settings.empty()) fields["changed"] = changed_settings;
  log_->event(resumed ? "resume" : "start", state_, begins_again, fields);
  if (resumed) log_note(str("resuming after step ", state_.step));
  write_running_status();
  if (!at_end()) {
    fit_memory(config_, engine_.model(), order_->batch_lengths(), engine_.gradient(), state_.micro,
               [this](const MicroBatchReduction& lowered) { report_reduction(lowered); });
  }
  if (state_.step == 0 || state_.eval_pending) evaluate_now();

  lap();
  while (!at_end() && stop_signal() == 0) {
    if (config_.train.max_time && seconds_since(started_) >= *config_.train.max_time) break;
    if (state_.guard.excludes(state_.batch)) {
      loader_->next();
      ++state_.batch;
      continue;
    }
    const RunClock before = clock();
    train_batch();
    if (eval_every_.due(before, clock()) && !finished()) evaluate_now();
    state_.kept = saves_.kept(before, clock());
    if (saves_.due(before, clock()) && !finished()) save_checkpoint();
    saver_->poll();
    if (seconds_since(status_written_) > 10) write_running_status();
  }
  log_progress_done();
  ending_ = true;
  if (finished()) {
    evaluate_now();
    require_finite_end();
  }
  if (stop_signal() != 0) log_->event("signal", state_, str("signal ", stop_signal()));
  save_checkpoint();
  lap();
  saver_->wait();
  time_left_->add_save(lap());
  // A trial is ranked by it; the checkpoint that the run would go on from knows nothing of it.
  if (at_end() && stop_signal() == 0) evaluate_now();
}

void Trainer::begin_from_state() {
  log_.reset();
  const MetricsDamage damage = mend_metrics(run_.metrics(), state_);
  log_.emplace(run_, state_, config_.log.tensorboard);
  report_damage(damage, run_, state_, *log_);
  saved_step_ = checkpoint_ ? std::optional(state_.step) : std::nullopt;
  loader_.reset();
  loader_ = std::make_unique<Loader>(*order_, state_.batch,
                                     config_.train.epochs ? order_->num_batches() : -1);
  tokens_at_start_ = state_.tokens;
  elapsed_at_start_ = state_.elapsed;
  seconds_waited_ = 0;
}

double Trainer::forward_and_backward(const Batch& batch) {
  for (;;) {
    try {
      return engine_.forward_backward(batch, micro_rows(config_, state_.micro, batch.length),
                                      state_.loss_scale ? state_.loss_scale->scale : 1);
    } catch (const std::exception& error) {
      const Failure failure = describe_failure(error);
      if (failure.kind != ErrorKind::kMemory) throw;
      report_reduction(reduce_micro_rows(config_, state_.micro, batch.length, failure.cause));
      reset_peak_memory(engine_.device());
    }
  }
}

void Trainer::train_batch() {
  const Clock::time_point begin = Clock::now();
  const RunClock before = clock();
  // 1. Sample.
  const Batch batch = loader_->next();
  seconds_waited_ += seconds_since(begin);
  // 2. Forward and backward.
  double loss = forward_and_backward(batch);
  if (after_backward) after_backward(batch, loss, engine_.gradient());
  // 3. Judge and clip. Nothing below is reached by a loss or gradient that the guard refuses.
  const double grad_norm = engine_.grad_norm();
  ++state_.batch;
  const StepDecision decision =
      decide_step(config_.guard, state_.guard, state_.loss_scale ? &*state_.loss_scale : nullptr,
                  batch.length, loss, grad_norm);
  if (decision.action != StepAction::kApply) {
    state_.elapsed += seconds_since(begin);
    refuse_step(batch, loss, grad_norm, decision);
    return;
  }
  const double grad_scale = engine_.clip(grad_norm);
  // 4. Update.
  const double lr = lr_schedule_->at(before.done());
  const UpdateStep update{state_.step + 1, lr, grad_scale,
                          before.after(1, static_cast<double>(batch.num_targets))};
  engine_.update(update);

  const double seconds = seconds_since(begin);
  ++state_.step;
  state_.tokens += batch.num_targets;
  state_.elapsed += seconds;
  state_.loss = loss;
  note_update(config_.guard, state_.guard, batch.length, loss, grad_norm);
  if (state_.loss_scale) state_.loss_scale->on_update();
  const double tokens_per_second = static_cast<double>(batch.num_targets) / seconds;
  std::optional<double> mfu;
  if (peak_flops_)
    mfu = tokens_per_second * engine_.layout().flops_per_token(batch.length) / *peak_flops_;
  report_update({state_.step, state_.tokens, loss, grad_norm, lr, batch.length, tokens_per_second,
                 mfu, state_.elapsed},
                before);
}

}  // namespace lmtrain
