#include "run/trainer.h"

#include <cmath>

#include "base/error.h"
#include "base/signal.h"
#include "base/terminal/log.h"
#include "base/text.h"
#include "device/device.h"
#include "device/device_memory.h"
#include "device/torch_headers.h"
#include "optim/clip.h"
#include "run/given_model.h"
#include "run/metrics_check.h"
#include "train/eval_share.h"
#include "train/failure.h"
#include "train/resolve.h"
#include "train/step.h"

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
      parameters_(ParameterLayout(config_.model, *config_.model.vocab_size),
                  precision_of(config_).dtype, device_of(config_)),
      fp32_parameters_(parameters_.in_fp32()),
      model_(config_.model, parameters_, config_.sequence.max_length, config_.compile,
             config_.loss.z_loss, precision_of(config_).fp8),
      optimizer_(make_optimizer(config_.optimizer, parameters_)),
      grad_(at::zeros_like(parameters_.master())),
      peak_flops_(
          known_peak_flops(parameters_.master().device(), parameters_.working().scalar_type())),
      started_(Clock::now()),
      status_written_(started_),
      lap_begin_(started_) {
  if (data_.eval_shard) eval_shard_.emplace(*data_.eval_shard, /*verify_tokens=*/false);
  if (parameters_.working().scalar_type() != at::kFloat) {
    fp32_model_.emplace(config_.model, fp32_parameters_, config_.sequence.max_length,
                        config_.compile);
  }
  if (config_.compile == CompileMode::kGraph) {
    graphs_ =
        std::make_unique<StepGraphs>(graph_recorder(model_.device()), model_, *optimizer_, grad_);
  }
  restore(checkpoint_);
  const auto tokens_per_epoch = static_cast<double>(order_->targets_given());
  eval_every_ = Cadence(epochs_in_tokens(config_.eval.every, tokens_per_epoch));
  log_every_ = Cadence(epochs_in_tokens(config_.log.every, tokens_per_epoch));
  const bool counts_steps = config_.train.steps.has_value();
  const auto tokens_per_step = static_cast<double>(config_.batch.tokens);
  lr_schedule_.emplace(config_.lr_schedule, config_.optimizer.lr, total(), counts_steps,
                       tokens_per_step);
  saves_ = SaveSchedule(config_, *lr_schedule_, tokens_per_epoch);
  if (trial) trial_end_ = resolve_duration(*trial, total(), counts_steps, tokens_per_step);
  const auto flops_per_token = [layout = parameters_.layout()](int64_t length) {
    return layout.causal_flops_per_token(length);
  };
  if (eval_shard_) eval_targets_ = evaluation_targets(*eval_shard_, *config_.eval.tokens);
  time_left_.emplace(
      [=](int64_t length) { return tokens_per_step * flops_per_token(length); },
      evaluation_cost(config_, eval_targets_) * flops_per_token(config_.sequence.max_length));
  texts_ = checkpoint_texts(config_, Tokenizer::load(data_.tokenizer_model));
}

Trainer::~Trainer() = default;

void Trainer::restore(std::optional<int64_t> checkpoint) {
  const RunLength length = run_length(config_.train);
  if (checkpoint) {
    state_ = load_checkpoint(run_.checkpoint(*checkpoint), parameters_, *optimizer_);
  } else {
    state_ = {};
    state_.seed = config_.seed;
    state_.fingerprint = data_.fingerprint;
    state_.planned = length;
    state_.total = length;
    for (const OptimizerBuffer& buffer : optimizer_->buffers()) buffer.values.zero_();
    if (config_.init_from) {
      load_initial_weights(*config_.init_from, parameters_);
    } else {
      parameters_.initialize(config_.seed, config_.model.initializer_range);
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
  order_ = std::make_unique<BatchOrder>(train_shard_, data_.sources, data_.fingerprint,
                                        config_.sequence, config_.data, config_.data_seed(),
                                        config_.batch.tokens, state_.planned, state_.replans);
  if (config_.precision != PrecisionSetting::kFp16) {
    state_.loss_scale.reset();
  } else if (!state_.loss_scale) {
    state_.loss_scale.emplace();
  }
}

double Trainer::done() const {
  return static_cast<double>(config_.train.steps ? state_.step : state_.tokens);
}

double Trainer::total() const { return run_total(config_.train, *order_); }

bool Trainer::finished() const {
  return config_.train.epochs ? state_.batch >= order_->num_batches() : done() >= total();
}

bool Trainer::at_end() const { return finished() || (trial_end_ && done() >= *trial_end_); }

Progress Trainer::progress() const {
  return {static_cast<double>(state_.step), static_cast<double>(state_.tokens),
          100.0 * done() / total(), state_.elapsed};
}

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
                 "; go on with: lmtrain resume ", run_.path().string()));
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
      run_, config_.checkpoint, texts_, parameters_.layout(),
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
    fit_memory(config_, model_, order_->batch_lengths(), grad_, state_.micro,
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
    const Progress before = progress();
    train_batch();
    if (eval_every_.due(before, progress()) && !finished()) evaluate_now();
    state_.kept = saves_.kept(before, progress());
    if (saves_.due(before, progress()) && !finished()) save_checkpoint();
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
      const int64_t rows = micro_rows(config_, state_.micro, batch.length);
      return accumulate_batch(model_, batch, rows * batch.length, grad_,
                              state_.loss_scale ? state_.loss_scale->scale : 1, graphs_.get());
    } catch (const std::exception& error) {
      const Failure failure = describe_failure(error);
      if (failure.kind != ErrorKind::kMemory) throw;
      report_reduction(reduce_micro_rows(config_, state_.micro, batch.length, failure.cause));
      reset_peak_memory(model_.device());
    }
  }
}

void Trainer::train_batch() {
  const Clock::time_point begin = Clock::now();
  const Progress before = progress();
  // 1. Sample.
  const Batch batch = loader_->next();
  seconds_waited_ += seconds_since(begin);
  // 2. Forward and backward.
  double loss = forward_and_backward(batch);
  if (after_backward) after_backward(batch, loss, grad_);
  // 3. Judge and clip. Nothing below is reached by a loss or gradient that the guard refuses.
  const double grad_norm = gradient_norm(grad_);
  ++state_.batch;
  const bool overflow = state_.loss_scale && std::isfinite(loss) && !std::isfinite(grad_norm);
  const Verdict verdict =
      overflow ? Verdict{} : judge_step(config_.guard, state_.guard, batch.length, loss, grad_norm);
  if (overflow || verdict.anomaly != Anomaly::kNone) {
    state_.elapsed += seconds_since(begin);
    overflow ? handle_overflow(batch, loss, grad_norm)
             : handle_anomaly(batch, loss, grad_norm, verdict);
    return;
  }
  const double grad_scale = clip_gradient(config_.clip, grad_, grad_norm);
  // 4. Update.
  const double lr = lr_schedule_->at(done());
  const double unit = config_.train.steps ? 1.0 : static_cast<double>(batch.num_targets);
  const UpdateStep update{state_.step + 1,
                          lr,
                          grad_scale,
                          {done() + unit, total(), config_.train.steps.has_value(),
                           static_cast<double>(config_.batch.tokens)}};
  graphs_ ? graphs_->update(update) : optimizer_->update(update, grad_);

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
    mfu = tokens_per_second * parameters_.layout().flops_per_token(batch.length) / *peak_flops_;
  report_update({state_.step, state_.tokens, loss, grad_norm, lr, batch.length, tokens_per_second,
                 mfu, state_.elapsed},
                before);
}

}  // namespace lmtrain
