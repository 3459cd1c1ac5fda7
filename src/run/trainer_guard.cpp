// What the loop does with a batch that must not be applied: skip it, go back to the last
// checkpoint, or end the run with exit code 4.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/terminal/log.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "corpus/shards/document_files.h"
#include "device/torch_headers.h"
#include "formats/json_number.h"
#include "run/trainer.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kCure = "lower optimizer.lr, raise lr_schedule.warmup, or look at the data";

// In pieces, so that what isfinite() allocates stays small beside the weights.
bool all_finite(const at::Tensor& flat) {
  constexpr int64_t kPiece = int64_t{1} << 24;
  for (int64_t begin = 0; begin < flat.numel(); begin += kPiece) {
    const at::Tensor piece = flat.narrow(0, begin, std::min(kPiece, flat.numel() - begin));
    if (!piece.isfinite().all().item<bool>()) return false;
  }
  return true;
}

// The first tensor that is not finite in a flat buffer, the gradient or the weights; empty when all
// are.
std::string first_bad_tensor(const ParameterLayout& layout, const at::Tensor& flat) {
  for (const ParameterSpec& spec : layout.parameters())
    if (!all_finite(flat.narrow(0, spec.offset, spec.numel()))) return spec.name;
  return "";
}

// Also where the guard lets everything through, a run whose numbers are lost is not done.
[[noreturn]] void throw_diverged(const Config& config, int64_t step, const std::string& what) {
  const std::string guard = config.guard.on_nonfinite == GuardPolicy::kOff
                                ? "guard.on_nonfinite is \"off\": set it to \"skip\"; or "
                                : "";
  throw Error(ErrorKind::kNumeric,
              str("diverged: after step ", step, " ", what, "; ", guard, kCure));
}

// The files that documents are from; null when the cache does not say it any more.
Json files_of(const std::filesystem::path& table, const std::set<int64_t>& documents) {
  try {
    return files_of_documents(table, documents);
  } catch (const Error& error) {
    log_warning(str("the files of the documents are not known: ", error.what()));
    return nullptr;
  }
}

}  // namespace

Json Trainer::incident_fields(const Batch& batch, double loss, double grad_norm) const {
  const std::string tensor = first_bad_tensor(engine_.layout(), engine_.gradient());
  const std::set<int64_t> documents(batch.documents.begin(), batch.documents.end());
  return {{"skipped_batch", batch.index},
          {"seq_len", batch.length},
          {"documents", documents},
          {"files", files_of(data_.document_files, documents)},
          {"loss", finite_or_null(loss)},
          {"grad_norm", finite_or_null(grad_norm)},
          {"tensor", tensor.empty() ? Json(nullptr) : Json(tensor)}};
}

void Trainer::refuse_step(const Batch& batch, double loss, double grad_norm,
                          const StepDecision& decision) {
  Json fields = incident_fields(batch, loss, grad_norm);
  if (decision.overflow) {
    fields["loss_scale"] = state_.loss_scale->scale;
    state_.loss_scale->on_overflow();
  }
  const bool spike = decision.anomaly == Anomaly::kSpike;
  if (spike) log_->event("spike", state_, decision.reason, fields);
  if (decision.action == StepAction::kRollback) {
    roll_back(batch, decision.reason, fields);
    return;
  }
  if (decision.action == StepAction::kSkip || !spike) skip_batch(batch, decision.reason, fields);
  if (decision.action == StepAction::kStop) {
    throw Error(ErrorKind::kNumeric,
                str("step ", state_.step + 1, ", batch ", batch.index, ": ", decision.reason,
                    "; guard.", spike ? "on_spike" : "on_nonfinite", " is \"stop\". ", kCure,
                    ", or set it to \"skip\""));
  }
  if (decision.counts_as_skip) count_skip();
}

void Trainer::skip_batch(const Batch& batch, const std::string& reason, Json fields) {
  log_->event("skip", state_, reason, fields);
  log_warning(str("batch ", batch.index, " skipped: ", reason, " (loss ", fields["loss"].dump(),
                  ", gradient norm ", fields["grad_norm"].dump(), ")"));
}

void Trainer::count_skip() {
  if (++state_.guard.skips_in_a_row < config_.guard.max_skips) return;
  throw Error(ErrorKind::kNumeric,
              str("diverged: ", state_.guard.skips_in_a_row,
                  " batches in a row could not be applied (guard.max_skips); ", kCure));
}

void Trainer::require_finite_weights() const {
  const std::string tensor = first_bad_tensor(engine_.layout(), engine_.parameters().master());
  if (tensor.empty()) return;
  throw_diverged(
      config_, state_.step,
      str("the weights are not finite (first: ", tensor, "), and no checkpoint is made of them"));
}

void Trainer::require_finite_end() const {
  require_finite_weights();
  if (state_.loss && !std::isfinite(*state_.loss))
    throw_diverged(config_, state_.step, "the loss of the last step is not finite");
}

void Trainer::judge_evaluation(double loss) const {
  if (std::isfinite(loss)) return;
  require_finite_weights();
  if (at_end()) throw_diverged(config_, state_.step, "the held-out loss is not finite");
  log_warning(
      str("the held-out loss after step ", state_.step, " is not finite, though the weights are"));
}

void Trainer::roll_back(const Batch& batch, const std::string& reason, Json fields) {
  GuardState guard = state_.guard;
  MicroBatchLimits micro = state_.micro;
  const int64_t from_step = state_.step;
  saver_->wait();
  checkpoint_ = newest_valid_checkpoint(run_, /*skip_training_state=*/false);
  loader_.reset();  // it reads the order that is replaced
  restore(checkpoint_);
  const bool again = guard.rollbacks_in_a_row > 0 && guard.rollback_step == state_.step;
  guard.windows = std::move(state_.guard.windows);
  guard.skips_in_a_row = state_.guard.skips_in_a_row;
  guard.excluded_batches.push_back(batch.index);
  guard.rollback_step = state_.step;
  guard.rollbacks_in_a_row = again ? guard.rollbacks_in_a_row + 1 : 1;
  state_.guard = std::move(guard);
  state_.micro = std::move(micro);
  begin_from_state();
  fields["from_step"] = from_step;
  fields["checkpoint"] = checkpoint_ ? Json(run_.checkpoint(*checkpoint_).string()) : Json(nullptr);
  fields["passed_over"] = state_.guard.excluded_batches;
  log_->event("rollback", state_, reason, fields);
  log_warning(str("batch ", batch.index, ": ", reason, "; back from step ", from_step, " to step ",
                  state_.step, ", the batch is passed over"));
  if (state_.guard.rollbacks_in_a_row > config_.guard.max_skips) {
    throw Error(ErrorKind::kNumeric,
                str("diverged: gone back to step ", state_.step, " ",
                    state_.guard.rollbacks_in_a_row, " times (guard.max_skips); ", kCure));
  }
  if (state_.step == 0 || state_.eval_pending) evaluate_now();
}

}  // namespace lmtrain
