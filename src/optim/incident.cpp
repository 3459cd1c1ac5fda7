#include "optim/incident.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/text.h"
#include "device/torch_headers.h"
#include "formats/json_number.h"
#include "prepare/document_files.h"

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

Incident describe_incident(const Batch& batch, double loss, double grad_norm,
                           const std::string& tensor, const std::filesystem::path& document_files) {
  Incident incident;
  incident.batch = batch.index;
  incident.length = batch.length;
  incident.documents = {batch.documents.begin(), batch.documents.end()};
  incident.files = files_of(document_files, incident.documents);
  incident.loss = loss;
  incident.grad_norm = grad_norm;
  incident.tensor = tensor;
  return incident;
}

Json incident_fields(const Incident& incident) {
  Json fields = {{"skipped_batch", incident.batch},
                 {"seq_len", incident.length},
                 {"documents", incident.documents},
                 {"files", incident.files ? Json(*incident.files) : Json(nullptr)},
                 {"loss", finite_or_null(incident.loss)},
                 {"grad_norm", finite_or_null(incident.grad_norm)},
                 {"tensor", incident.tensor.empty() ? Json(nullptr) : Json(incident.tensor)}};
  if (incident.loss_scale) fields["loss_scale"] = *incident.loss_scale;
  return fields;
}

std::string first_bad_tensor(const ParameterLayout& layout, const at::Tensor& flat,
                             const ParameterFilter& looks_at) {
  for (const ParameterSpec& spec : layout.parameters())
    if (looks_at(spec) && !all_finite(flat.narrow(0, spec.offset, spec.numel()))) return spec.name;
  return "";
}

Error diverged(const std::string& what, const std::string& advice) {
  return Error(ErrorKind::kNumeric, str("diverged: ", what, "; ", advice, kCure));
}

Error stopped_by_guard(int64_t step, const Incident& incident, const StepDecision& decision) {
  const bool spike = decision.anomaly == Anomaly::kSpike;
  return Error(
      ErrorKind::kNumeric,
      str("step ", step + 1, ", batch ", incident.batch, ": ", decision.reason, "; guard.",
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
