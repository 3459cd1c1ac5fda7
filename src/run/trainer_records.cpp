// What a run says and leaves behind: its summary, the line of an update, evaluations, checkpoints,
// status.json.

#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/signal.h"
#include "base/terminal/log.h"
#include "base/text.h"
#include "device/device.h"
#include "device/torch_headers.h"
#include "formats/json_lines.h"
#include "ops/flash_attention.h"
#include "run/report.h"
#include "run/run_warnings.h"
#include "run/trainer.h"
#include "train/eval_share.h"
#include "train/failure.h"
#include "train/resolve.h"

namespace lmtrain {

std::string Trainer::summary() const {
  const at::Device device = device_of(config_);
  std::string attention;
  if (device.is_cuda()) {
    const ModelConfig& model = config_.model;
    attention = str(", attention by ",
                    attention_backend(device, engine_.parameters().working().scalar_type(),
                                      model.num_attention_heads, model.num_key_value_heads,
                                      model.resolved_head_dim(), config_.sequence.max_length));
  }
  std::vector<std::string> batches;
  for (const LengthSummary& length : order_->lengths()) {
    batches.push_back(str(length.batches, " of length ", length.length));
  }
  std::string evaluations;
  if (eval_shard_) {
    evaluations = str(
        "\nevaluation about ", count_evaluations(config_, data_), " times on ",
        format_count(static_cast<double>(eval_targets_)), " held-out tokens, together about ",
        printed("%.0f %%", 100 * evaluation_share(config_, data_, eval_targets_)), " of the run");
  }
  std::string sources;
  for (const SourceSummary& source : order_->sources()) {
    if (order_->sources().size() == 1) break;
    sources +=
        str("\nsource     ", config_.data.train[static_cast<size_t>(source.source)].path, ": ",
            counted(source.documents, "document"), ", ", printed("%.2f", source.epochs), " times ",
            format_count(static_cast<double>(source.targets)), " tokens");
  }
  const auto num_parameters = static_cast<double>(engine_.layout().num_parameters());
  return str("model      ", format_count(num_parameters), " parameters, ",
             counted(config_.model.num_hidden_layers, "layer"), ", hidden size ",
             config_.model.hidden_size, ", vocabulary ", *config_.model.vocab_size, "\ncompute    ",
             device_description(device, static_cast<int>(*config_.threads)), ", ",
             name_of(config_.precision), ", ", name_of(config_.compile), attention,
             "\nbatches    of ", config_.batch.tokens, " tokens: ", join(batches, ", "), sources,
             "\nrun        about ", order_->num_batches(), " steps, ",
             format_count(static_cast<double>(order_->num_targets())), " tokens, into ",
             run_.path().string(), evaluations);
}

double Trainer::lap() {
  const auto begin = std::exchange(lap_begin_, std::chrono::steady_clock::now());
  return std::chrono::duration<double>(lap_begin_ - begin).count();
}

int64_t Trainer::batches_left() const {
  if (config_.train.steps) return std::max<int64_t>(0, std::llround(end() - clock().done()));
  const double part = trial_end_ ? *trial_end_ / clock().total : 1.0;
  const auto last = std::llround(part * static_cast<double>(order_->num_batches()));
  return std::max<int64_t>(0, last - state_.batch);
}

double Trainer::seconds_left(const RunClock& before) const {
  TimeLeft::Ahead ahead;
  const std::vector<int64_t> lengths = order_->batch_lengths();
  const int64_t batches = batches_left();
  const std::vector<int64_t> counts = order_->count_lengths(state_.batch, state_.batch + batches);
  for (size_t i = 0; i < lengths.size(); ++i)
    ahead.training += static_cast<double>(counts[i]) * time_left_->batch_seconds(lengths[i]);
  // What falls due on this step comes after it; on the last one it is what comes at the end anyway.
  const RunClock now = clock();
  const double steps = static_cast<double>(std::max<int64_t>(0, batches - 1));
  const double part = batches > 0 ? steps / static_cast<double>(batches) : 0;
  const double tokens = config_.train.steps
                            ? static_cast<double>(order_->num_targets() - state_.tokens)
                            : end() - now.done();
  const RunClock last = now.after(steps, part * std::max(0.0, tokens), part * ahead.training);
  const auto with_the_last = [&](double due) {
    return 1 + std::min(static_cast<double>(batches), due);
  };
  ahead.saves = with_the_last(saves_.estimate(before, last));
  if (eval_shard_) ahead.evaluations = with_the_last(eval_every_.multiples(before, last));
  const double left = time_left_->seconds(ahead);
  if (!config_.train.max_time) return left;
  // Stopped by the clock it saves, and evaluates no more.
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - started_;
  return std::min(left, std::max(0.0, *config_.train.max_time - passed.count()) +
                            time_left_->seconds({.saves = 1}));
}

std::vector<std::string> Trainer::warnings() const {
  return run_warnings(config_, *order_, eval_shard_.has_value());
}

void Trainer::report_update(const UpdateMetrics& metrics, const RunClock& before) {
  log_->update(metrics);
  time_left_->add_batch(metrics.seq_len, lap());
  const std::chrono::duration<double> elapsed = lap_begin_ - started_;
  StepReport report;
  report.step = metrics.step;
  report.steps = config_.train.steps.value_or(order_->num_batches());
  const RunClock now = clock();
  report.share = now.done() / now.total;
  report.loss = metrics.loss;
  report.lr = metrics.lr;
  report.length = metrics.seq_len;
  report.tokens_per_second = static_cast<double>(state_.tokens - tokens_at_start_) /
                             std::max(1e-9, state_.elapsed - elapsed_at_start_);
  report.elapsed = elapsed.count();
  report.left = seconds_left(before);
  log_progress(step_line(report), log_every_.due(before, now));
}

void Trainer::report_end() const {
  EndReport report;
  report.steps = state_.step;
  report.tokens = state_.tokens;
  report.loss = state_.loss;
  try {
    for_each_json_line(run_.metrics(), [&](const nlohmann::json& line, uint64_t) {
      const bool evaluated = line.contains("eval_loss") && line["eval_loss"].is_number() &&
                             line.contains("step") && line["step"].is_number_integer();
      if (!evaluated) return;
      report.last = {line["step"].get<int64_t>(), line["eval_loss"].get<double>()};
      if (!report.best || report.last->loss < report.best->loss) report.best = report.last;
    });
  } catch (const Error& error) {
    log_warning(error.what());  // all else is done, and saved
  }
  report.training = time_left_->training_seconds();
  report.evaluating = time_left_->evaluating_seconds();
  report.saving = time_left_->saving_seconds();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started_;
  report.elapsed = elapsed.count();
  if (saved_step_) report.saved = run_.checkpoint(*saved_step_);
  log_note(end_summary(report));
  if (finished()) log_note(next_commands(run_.path(), config_, eval_shard_.has_value()));
}

void Trainer::report_reduction(const MicroBatchReduction& lowered) {
  log_->event(
      "oom_fit", state_, lowered.reason,
      {{"seq_len", lowered.length}, {"rows_before", lowered.rows_before}, {"rows", lowered.rows}});
  log_warning(str("length ", lowered.length, ": ", counted(lowered.rows, "row"),
                  " at once instead of ", lowered.rows_before, " from here on (", lowered.reason,
                  ")"));
}

void Trainer::evaluate_now() {
  if (!eval_shard_) {
    if (!state_.eval_step) {
      const bool is_asked_for = config_.data.eval_fraction > 0;
      log_warning(str("no held-out text (",
                      is_asked_for ? "data.train is one short text, or the same one again and "
                                     "again; give other text in data.eval"
                                   : "data.eval_fraction is 0 and data.eval is not given",
                      "): evaluations are skipped"));
    }
    state_.eval_step = state_.step;
    return;
  }
  if (state_.eval_step == state_.step) return;
  const int64_t length = config_.sequence.max_length;
  EvalOptions options{length, length * micro_rows(config_, state_.micro, length),
                      *config_.eval.tokens};
  // Micro-batches are fitted to the precision of the run, and this is in fp32.
  options.batch_tokens = std::min(options.batch_tokens, EvalOptions().batch_tokens);
  lap();
  const auto result =
      evaluate(engine_.fp32_model(), *eval_shard_, options, [] { return stop_signal() == 0; });
  const double seconds = lap();
  state_.eval_pending = !result;
  if (!result) return;
  time_left_->add_evaluation(seconds);
  state_.eval_step = state_.step;
  state_.eval_loss = result->loss();
  log_->evaluation(state_.step, state_.tokens, *result);
  log_note(str("step ", state_.step, "  held-out loss ", printed("%.4f", result->loss()),
               "  perplexity ", printed("%.2f", result->perplexity()), "  bits per byte ",
               printed("%.4f", result->bits_per_byte())));
  write_running_status();
  judge_evaluation(result->loss());
}

void Trainer::save_checkpoint() {
  if (saved_step_ == state_.step) return;
  require_finite_weights();
  lap();
  log_->sync();
  saver_->save(take_snapshot(state_, engine_.parameters(), engine_.optimizer()));
  time_left_->add_save(lap());
  saved_step_ = state_.step;
  write_running_status();
}

void Trainer::save_before_error() {
  try {
    save_checkpoint();
    saver_->wait();
  } catch (const std::exception& error) {
    log_warning(
        str("the steps since the last checkpoint are lost: ", describe_failure(error).message));
  }
}

void Trainer::save_failed(const TrainingState& lost, const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    const std::string reason = describe_failure(error).message;
    log_->event("save_failed", lost, reason, {{"checkpoint", run_.checkpoint(lost.step).string()}});
    // Without its last checkpoint a run has not ended well, whatever was asked for.
    if (config_.checkpoint.on_save_error == SaveErrorPolicy::kStop ||
        (ending_ && lost.step == state_.step))
      throw;
    log_warning(str("checkpoint of step ", lost.step, " not saved, the run goes on: ", reason));
    if (saved_step_ == lost.step) saved_step_.reset();
  }
}

void Trainer::write_running_status() {
  write_status(run_, "running", state_, std::nullopt);
  status_written_ = std::chrono::steady_clock::now();
}

}  // namespace lmtrain
