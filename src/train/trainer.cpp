#include "train/trainer.h"

#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/log.h"
#include "base/signal.h"
#include "base/text.h"
#include "ops/device.h"
#include "ops/torch_headers.h"
#include "optim/clip.h"
#include "train/failure.h"
#include "train/resolve.h"
#include "train/step.h"

namespace lmtrain {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

RunLength run_length(const TrainConfig& train) {
  RunLength length;
  length.steps = train.steps.value_or(0);
  length.tokens = train.steps || train.epochs ? 0 : train.tokens.value_or(0);
  length.epochs = train.epochs.value_or(0);
  return length;
}

bool same_length(const RunLength& a, const RunLength& b) {
  return a.steps == b.steps && a.tokens == b.tokens && a.epochs == b.epochs;
}

std::string printed(const char* format, double value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

}  // namespace

Trainer::Trainer(Config config, PreparedData data, const RunFolder& run,
                 std::optional<int64_t> checkpoint)
    : config_(std::move(config)),
      data_(std::move(data)),
      run_(run),
      checkpoint_(checkpoint),
      train_shard_(data_.train_shard, /*verify_tokens=*/false),
      parameters_(ParameterLayout(config_.model, *config_.model.vocab_size),
                  working_dtype_of(config_), device_of(config_)),
      fp32_parameters_(parameters_.in_fp32()),
      model_(config_.model, parameters_, config_.sequence.max_length, config_.compile),
      fp32_model_(config_.model, fp32_parameters_, config_.sequence.max_length, config_.compile),
      optimizer_(make_optimizer(config_.optimizer, parameters_)),
      grad_(at::zeros_like(parameters_.master())),
      eval_every_(config_.eval.every),
      save_every_(config_.checkpoint.every),
      log_every_(config_.log.every),
      peak_flops_(
          known_peak_flops(parameters_.master().device(), parameters_.working().scalar_type())),
      started_(Clock::now()),
      status_written_(started_) {
  if (data_.eval_shard) eval_shard_.emplace(*data_.eval_shard, /*verify_tokens=*/false);
  const RunLength length = run_length(config_.train);
  if (checkpoint_) {
    state_ = load_checkpoint(run_.checkpoint(*checkpoint_), parameters_, *optimizer_);
  } else {
    state_.fingerprint = data_.fingerprint;
    state_.planned = length;
    state_.total = length;
    if (config_.init_from) {
      load_initial_weights(*config_.init_from, parameters_);
    } else {
      parameters_.initialize(config_.seed, config_.model.initializer_range);
    }
  }
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
  lr_schedule_.emplace(config_.lr_schedule, config_.optimizer.lr, total(),
                       config_.train.steps.has_value(), static_cast<double>(config_.batch.tokens));
  texts_ = checkpoint_texts(config_, Tokenizer::load(data_.tokenizer_model));
}

Trainer::~Trainer() = default;

double Trainer::done() const {
  return static_cast<double>(config_.train.steps ? state_.step : state_.tokens);
}

double Trainer::total() const {
  if (config_.train.steps) return static_cast<double>(*config_.train.steps);
  if (config_.train.epochs) return static_cast<double>(order_->num_targets());
  return static_cast<double>(*config_.train.tokens);
}

bool Trainer::finished() const {
  return config_.train.epochs ? state_.batch >= order_->num_batches() : done() >= total();
}

Progress Trainer::progress() const {
  return {static_cast<double>(state_.step), static_cast<double>(state_.tokens),
          100.0 * done() / total(), state_.elapsed};
}

std::string Trainer::summary() const {
  std::vector<std::string> batches;
  for (const LengthSummary& length : order_->lengths()) {
    batches.push_back(str(length.batches, " of length ", length.length));
  }
  std::string sources;
  for (const SourceSummary& source : order_->sources()) {
    if (order_->sources().size() == 1) break;
    sources +=
        str("\nsource     ", config_.data.train[static_cast<size_t>(source.source)].path, ": ",
            counted(source.documents, "document"), ", ", printed("%.2f", source.epochs), " times ",
            format_count(static_cast<double>(source.targets)), " tokens");
  }
  const auto num_parameters = static_cast<double>(parameters_.layout().num_parameters());
  return str("model      ", format_count(num_parameters), " parameters, ",
             counted(config_.model.num_hidden_layers, "layer"), ", hidden size ",
             config_.model.hidden_size, ", vocabulary ", *config_.model.vocab_size, "\ncompute    ",
             device_description(device_of(config_), static_cast<int>(*config_.threads)), ", ",
             config_.precision, ", ", config_.compile, "\nbatches    of ", config_.batch.tokens,
             " tokens: ", join(batches, ", "), sources, "\nrun        about ",
             order_->num_batches(), " steps, ",
             format_count(static_cast<double>(order_->num_targets())), " tokens, into ",
             run_.path().string());
}

RunOutcome Trainer::run() {
  if (finished()) {
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
  const bool done = finished() && !state_.eval_pending;
  const int signal = stop_signal();
  const int code = done ? 0 : signal != 0 ? 128 + signal : kExitMaxTime;
  const std::string reason = done ? "done" : signal != 0 ? str("signal ", signal) : "max_time";
  log_->event("end", state_, reason);
  if (!done) {
    log_note(str("stopped by ", reason, " after step ", state_.step,
                 "; go on with: lmtrain resume ", run_.path().string()));
  }
  return {code, write_status(run_, done ? "done" : "stopped", state_, code)};
}

std::optional<RunOutcome> Trainer::already_done() {
  std::string status;
  if (std::filesystem::exists(run_.status())) status = read_file(run_.status());
  const auto json = nlohmann::json::parse(status, nullptr, /*allow_exceptions=*/false);
  const bool said = json.is_object() && json.value("state", "") == "done" &&
                    json.value("step", int64_t{-1}) == state_.step;
  if (!said && state_.eval_pending) return std::nullopt;  // the last evaluation is still to come
  log_note(str("the run in ", run_.path().string(), " is finished: ", state_.step, " steps, ",
               state_.tokens, " tokens"));
  run_.remove_unfinished();
  // A run that was killed in its last moment has not said that it is done.
  return RunOutcome{
      0, said ? status.substr(0, status.find('\n')) : write_status(run_, "done", state_, 0)};
}

void Trainer::train() {
  const bool resumed = checkpoint_.has_value();
  run_.remove_unfinished();
  lmtrain::create_directories(run_.checkpoints());
  log_.emplace(run_, state_, config_.log.tensorboard);
  saver_ = std::make_unique<CheckpointSaver>(
      run_, config_.checkpoint, texts_, parameters_.layout(),
      [this](const TrainingState& saved, double seconds) {
        log_->event("save", saved, "",
                    {{"checkpoint", run_.checkpoint(saved.step).string()}, {"seconds", seconds}});
      },
      [this](const TrainingState& lost, const std::exception_ptr& failure) {
        save_failed(lost, failure);
      });
  log_->event(
      resumed ? "resume" : "start", state_, "",
      {{"version", LMTRAIN_VERSION}, {"device", config_.device}, {"precision", config_.precision}});
  if (resumed) {
    saved_step_ = state_.step;
    if (state_.step > 0 && !state_.eval_pending) evaluated_step_ = state_.step;
    log_note(str("resuming after step ", state_.step));
  }
  write_running_status();
  if (state_.step == 0 || state_.eval_pending) evaluate_now();

  loader_ = std::make_unique<Loader>(*order_, state_.batch,
                                     config_.train.epochs ? order_->num_batches() : -1);
  done_at_start_ = done();
  tokens_at_start_ = state_.tokens;
  elapsed_at_start_ = state_.elapsed;
  while (!finished() && stop_signal() == 0) {
    if (config_.train.max_time && seconds_since(started_) >= *config_.train.max_time) break;
    const Progress before = progress();
    train_batch();
    if (eval_every_.due(before, progress()) && !finished()) evaluate_now();
    if (save_every_.due(before, progress()) && !finished()) save_checkpoint();
    saver_->poll();
    if (seconds_since(status_written_) > 10) write_running_status();
  }
  log_progress_done();
  ending_ = true;
  if (finished()) evaluate_now();
  if (stop_signal() != 0) log_->event("signal", state_, str("signal ", stop_signal()));
  save_checkpoint();
  saver_->wait();
}

void Trainer::train_batch() {
  const Clock::time_point begin = Clock::now();
  const Progress before = progress();
  // 1. Sample.
  const Batch batch = loader_->next();
  // 2. Forward and backward.
  const double loss = accumulate_batch(model_, batch, *config_.batch.micro_tokens, grad_);
  // 3. Clip.
  const double grad_norm = gradient_norm(grad_);
  ++state_.batch;
  if (!std::isfinite(loss) || !std::isfinite(grad_norm)) {
    state_.elapsed += seconds_since(begin);
    skip_batch(batch, loss, grad_norm);
    return;
  }
  const double grad_scale = clip_gradient(config_.clip, grad_, grad_norm);
  // 4. Update.
  const double lr = lr_schedule_->at(done());
  const double unit = config_.train.steps ? 1.0 : static_cast<double>(batch.num_targets);
  optimizer_->update({state_.step + 1,
                      lr,
                      grad_scale,
                      {done() + unit, total(), config_.train.steps.has_value(),
                       static_cast<double>(config_.batch.tokens)}},
                     grad_);

  const double seconds = seconds_since(begin);
  ++state_.step;
  state_.tokens += batch.num_targets;
  state_.elapsed += seconds;
  state_.skips_in_a_row = 0;
  state_.loss = loss;
  const double tokens_per_second = static_cast<double>(batch.num_targets) / seconds;
  std::optional<double> mfu;
  if (peak_flops_)
    mfu = tokens_per_second * parameters_.layout().flops_per_token(batch.length) / *peak_flops_;
  report_update({state_.step, state_.tokens, loss, grad_norm, lr, batch.length, tokens_per_second,
                 mfu, state_.elapsed},
                before);
}

void Trainer::skip_batch(const Batch& batch, double loss, double grad_norm) {
  ++state_.skips_in_a_row;
  const std::string reason =
      std::isfinite(loss) ? "the gradient is not finite" : "the loss is not finite";
  log_->event(
      "skip", state_, reason,
      {{"skipped_batch", batch.index}, {"seq_len", batch.length}, {"documents", batch.documents}});
  log_warning(str("batch ", batch.index, " skipped: ", reason, " (loss ", loss, ", gradient norm ",
                  grad_norm, ")"));
  if (config_.guard.on_nonfinite == "stop") {
    throw Error(ErrorKind::kNumeric,
                str("step ", state_.step + 1, ", batch ", batch.index, ": ", reason,
                    "; guard.on_nonfinite is \"stop\". Lower optimizer.lr or clip.max, or set it "
                    "to \"skip\""));
  }
  if (state_.skips_in_a_row >= config_.guard.max_skips) {
    throw Error(ErrorKind::kNumeric,
                str("diverged: ", state_.skips_in_a_row,
                    " batches in a row gave a loss or gradient that is not "
                    "finite (guard.max_skips); lower optimizer.lr or use precision \"fp32\""));
  }
}

void Trainer::report_update(const UpdateMetrics& metrics, const Progress& before) {
  log_->update(metrics);
  const double fraction = done() / total();
  const double rate =
      (done() - done_at_start_) / std::max(1e-9, state_.elapsed - elapsed_at_start_);
  const double left = std::max(0.0, total() - done()) / std::max(1e-9, rate);
  const double tokens_rate = static_cast<double>(state_.tokens - tokens_at_start_) /
                             std::max(1e-9, state_.elapsed - elapsed_at_start_);
  log_progress(str("step ", metrics.step, "  ", printed("%5.1f%%", 100.0 * std::min(1.0, fraction)),
                   "  loss ", printed("%.4f", metrics.loss), "  lr ", printed("%.2e", metrics.lr),
                   "  length ", metrics.seq_len, "  ", format_count(tokens_rate), " tokens/s  ",
                   format_duration(left), " left"),
               log_every_.due(before, progress()));
}

void Trainer::evaluate_now() {
  if (!eval_shard_) {
    if (!evaluated_step_)
      log_warning(
          "no held-out text (data.eval_fraction is 0 and data.eval is not given): evaluations are "
          "skipped");
    evaluated_step_ = state_.step;
    return;
  }
  if (evaluated_step_ == state_.step) return;
  const EvalOptions options{config_.sequence.max_length, *config_.batch.micro_tokens,
                            config_.eval.tokens};
  const auto result =
      evaluate(fp32_model_, *eval_shard_, options, [] { return stop_signal() == 0; });
  state_.eval_pending = !result;
  if (!result) return;
  evaluated_step_ = state_.step;
  state_.eval_loss = result->loss();
  log_->evaluation(state_.step, state_.tokens, *result);
  log_note(str("step ", state_.step, "  held-out loss ", printed("%.4f", result->loss()),
               "  perplexity ", printed("%.2f", result->perplexity()), "  bits per byte ",
               printed("%.4f", result->bits_per_byte())));
  write_running_status();
}

void Trainer::save_checkpoint() {
  if (saved_step_ == state_.step) return;
  log_->sync();
  saver_->save(take_snapshot(state_, parameters_, *optimizer_));
  saved_step_ = state_.step;
  write_running_status();
}

void Trainer::save_failed(const TrainingState& lost, const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    const std::string reason = describe_failure(error).message;
    log_->event("save_failed", lost, reason, {{"checkpoint", run_.checkpoint(lost.step).string()}});
    // Without its last checkpoint a run has not ended well, whatever was asked for.
    if (config_.checkpoint.on_save_error == "stop" || (ending_ && lost.step == state_.step)) throw;
    log_warning(str("checkpoint of step ", lost.step, " not saved, the run goes on: ", reason));
    if (saved_step_ == lost.step) saved_step_.reset();
  }
}

void Trainer::write_running_status() {
  write_status(run_, "running", state_, std::nullopt);
  status_written_ = Clock::now();
}

}  // namespace lmtrain
