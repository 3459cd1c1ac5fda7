// What a run says and leaves behind: its summary, the line of an update, evaluations, checkpoints,
// status.json.

#include "base/error.h"
#include "base/log.h"
#include "base/signal.h"
#include "base/text.h"
#include "ops/device.h"
#include "ops/flash_attention.h"
#include "ops/torch_headers.h"
#include "train/failure.h"
#include "train/resolve.h"
#include "train/trainer.h"

namespace lmtrain {

std::string Trainer::summary() const {
  const at::Device device = device_of(config_);
  std::string attention;
  if (device.is_cuda()) {
    const ModelConfig& model = config_.model;
    attention = str(", attention by ",
                    attention_backend(device, parameters_.working().scalar_type(),
                                      model.num_attention_heads, model.num_key_value_heads,
                                      model.resolved_head_dim(), config_.sequence.max_length));
  }
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
             device_description(device, static_cast<int>(*config_.threads)), ", ",
             config_.precision, ", ", config_.compile, attention, "\nbatches    of ",
             config_.batch.tokens, " tokens: ", join(batches, ", "), sources, "\nrun        about ",
             order_->num_batches(), " steps, ",
             format_count(static_cast<double>(order_->num_targets())), " tokens, into ",
             run_.path().string());
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

void Trainer::report_lowered(const Lowered& lowered) {
  log_->event(
      "oom_fit", state_, lowered.reason,
      {{"seq_len", lowered.length}, {"rows_before", lowered.rows_before}, {"rows", lowered.rows}});
  log_warning(str("length ", lowered.length, ": ", counted(lowered.rows, "row"),
                  " at once instead of ", lowered.rows_before, " from here on (", lowered.reason,
                  ")"));
}

void Trainer::evaluate_now() {
  if (!eval_shard_) {
    if (!state_.eval_step)
      log_warning(
          "no held-out text (data.eval_fraction is 0 and data.eval is not given): evaluations are "
          "skipped");
    state_.eval_step = state_.step;
    return;
  }
  if (state_.eval_step == state_.step) return;
  const int64_t length = config_.sequence.max_length;
  EvalOptions options{length, length * micro_rows(config_, state_.micro, length),
                      config_.eval.tokens};
  // Micro-batches are fitted to the precision of the run, and this is in fp32.
  options.batch_tokens = std::min(options.batch_tokens, EvalOptions().batch_tokens);
  const auto result = evaluate(fp32_model_ ? *fp32_model_ : model_, *eval_shard_, options,
                               [] { return stop_signal() == 0; });
  state_.eval_pending = !result;
  if (!result) return;
  state_.eval_step = state_.step;
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
  status_written_ = std::chrono::steady_clock::now();
}

}  // namespace lmtrain
