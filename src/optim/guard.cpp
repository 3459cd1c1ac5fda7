#include "optim/guard.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/log.h"
#include "base/text.h"
#include "formats/strict_json.h"
#include "prepare/source_runs.h"

namespace lmtrain {
namespace {

using Json = nlohmann::ordered_json;

// In a window of nearly equal values any change would be a spike. So the deviation counts as at
// least this share of the mean.
constexpr double kSmallestDeviation = 1e-3;

constexpr const char* kCure =
    "lower optimizer.lr_factor, raise lr_schedule.warmup, or look at the data";

// Returns how many standard deviations `value` is above the mean of `values`; 0 if these are too
// few.
double sigmas_above(const std::vector<double>& values, int64_t window, double value) {
  const auto needed = static_cast<size_t>(std::max<int64_t>(2, window / 2));
  if (values.size() < needed) return 0;
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double x : values) squares += (x - mean) * (x - mean);
  const double deviation =
      std::max(std::sqrt(squares / (count - 1)), kSmallestDeviation * std::abs(mean));
  return deviation > 0 ? (value - mean) / deviation : 0;
}

void push(std::vector<double>& values, int64_t window, double value) {
  values.push_back(value);
  if (static_cast<int64_t>(values.size()) > window)
    values.erase(values.begin(), values.end() - window);
}

Verdict refuse(GuardPolicy policy, Verdict::Cause cause, std::string reason) {
  Verdict verdict;
  verdict.action = policy == GuardPolicy::kRollback ? Verdict::Action::kRollback
                   : policy == GuardPolicy::kStop   ? Verdict::Action::kStop
                                                    : Verdict::Action::kSkip;
  verdict.cause = cause;
  verdict.reason = std::move(reason);
  return verdict;
}

std::optional<std::vector<std::string>> files_of(const std::filesystem::path& table,
                                                 const std::set<int64_t>& documents) {
  try {
    return files_of_documents(table, documents);
  } catch (const Error& error) {
    log_warning(str("the files of the documents are not known: ", error.what()));
    return std::nullopt;
  }
}

[[noreturn]] void throw_lost(const Config& config, int64_t step, const std::string& what) {
  throw diverged(str("after step ", step, " ", what),
                 config.guard.on_nonfinite == GuardPolicy::kOff
                     ? "guard.on_nonfinite is \"off\": set it to \"skip\"; or "
                     : "");
}

}  // namespace

bool GuardState::skips(int64_t batch) const {
  return std::find(skipped_batches.begin(), skipped_batches.end(), batch) != skipped_batches.end();
}

Verdict judge_step(const GuardConfig& config, const GuardState& state, const LossScale* loss_scale,
                   int64_t length, double loss, double grad_norm) {
  if (loss_scale != nullptr && std::isfinite(loss) && !std::isfinite(grad_norm))
    return {Verdict::Action::kSkip, Verdict::Cause::kOverflow, loss_scale->at_floor(),
            "loss_scale"};
  if (config.on_nonfinite != GuardPolicy::kOff) {
    const auto not_finite = [&](const char* reason) {
      return refuse(config.on_nonfinite, Verdict::Cause::kNotFinite, reason);
    };
    if (!std::isfinite(loss)) return not_finite("the loss is not finite");
    if (!std::isfinite(grad_norm)) return not_finite("the gradient is not finite");
  }
  const auto found = state.windows.find(length);
  if (config.on_spike == GuardPolicy::kOff || found == state.windows.end()) return {};
  const auto spike = [&](const char* what, double sigmas) {
    return refuse(config.on_spike, Verdict::Cause::kSpike,
                  str("the ", what, " is ", std::round(sigmas * 10) / 10,
                      " standard deviations above its mean"));
  };
  const double loss_sigmas = sigmas_above(found->second.losses, config.window, loss);
  if (loss_sigmas > config.spike_sigma) return spike("loss", loss_sigmas);
  const double norm_sigmas = sigmas_above(found->second.grad_norms, config.window, grad_norm);
  if (norm_sigmas > config.spike_sigma) return spike("gradient norm", norm_sigmas);
  return {};
}

void note_update(const GuardConfig& config, GuardState& state, int64_t length, double loss,
                 double grad_norm) {
  state.skips_in_a_row = 0;
  if (config.on_spike == GuardPolicy::kOff) {
    state.windows.clear();
    return;
  }
  if (!std::isfinite(loss) || !std::isfinite(grad_norm)) return;
  GuardWindow& window = state.windows[length];
  push(window.losses, config.window, loss);
  push(window.grad_norms, config.window, grad_norm);
}

RefusedBatch describe_refused(const Batch& batch, double loss, double grad_norm,
                              const std::string& tensor,
                              const std::filesystem::path& document_files) {
  RefusedBatch refused;
  refused.batch = batch.index;
  refused.length = batch.length;
  refused.documents = {batch.documents.begin(), batch.documents.end()};
  refused.files = files_of(document_files, refused.documents);
  refused.loss = loss;
  refused.grad_norm = grad_norm;
  refused.tensor = tensor;
  return refused;
}

Json refused_fields(const RefusedBatch& refused) {
  Json fields = {{"skipped_batch", refused.batch},
                 {"seq_len", refused.length},
                 {"documents", refused.documents},
                 {"files", refused.files ? Json(*refused.files) : Json(nullptr)},
                 {"loss", finite_or_null(refused.loss)},
                 {"grad_norm", finite_or_null(refused.grad_norm)},
                 {"tensor", refused.tensor.empty() ? Json(nullptr) : Json(refused.tensor)}};
  if (refused.loss_scale) fields["loss_scale"] = *refused.loss_scale;
  return fields;
}

Error diverged(const std::string& what, const std::string& advice) {
  return Error(ErrorKind::kNumeric, str("diverged: ", what, "; ", advice, kCure));
}

Error stopped_by_guard(int64_t step, const RefusedBatch& refused, const Verdict& verdict) {
  const bool spike = verdict.cause == Verdict::Cause::kSpike;
  return Error(
      ErrorKind::kNumeric,
      str("step ", step + 1, ", batch ", refused.batch, ": ", verdict.reason, "; guard.",
          spike ? "on_spike" : "on_nonfinite", " is \"stop\". ", kCure, ", or set it to \"skip\""));
}

void require_finite_weights(const Config& config, const std::string& bad_tensor, int64_t step) {
  if (bad_tensor.empty()) return;
  throw_lost(config, step,
             str("the weights are not finite (first: ", bad_tensor,
                 "), and no checkpoint is made of them"));
}

void require_finite_end(const Config& config, const std::string& bad_tensor, int64_t step,
                        std::optional<double> loss) {
  require_finite_weights(config, bad_tensor, step);
  // A checkpoint keeps a loss that is not finite as none.
  if (step > 0 && !(loss && std::isfinite(*loss)))
    throw_lost(config, step, "the loss of the last step is not finite");
}

void require_only_loss_lost(const Config& config, const std::string& bad_tensor, int64_t step,
                            bool is_last) {
  require_finite_weights(config, bad_tensor, step);
  if (is_last) throw_lost(config, step, "the held-out loss is not finite");
}

}  // namespace lmtrain
