// Describes a batch that must not be applied, and makes the errors of a run whose weights or loss
// are not finite any more. optim/anomaly_policy.h and the trainer decide what is done about either.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "batching/batch.h"
#include "config/config.h"
#include "model/parameters.h"
#include "optim/anomaly_policy.h"
#include "optim/optimizer.h"

namespace lmtrain {

struct Incident {
  int64_t batch = 0;            // its position in the order of data
  int64_t length = 0;           // of its rows, in targets
  std::set<int64_t> documents;  // those with text in it, by their numbers in the train shard
  // These documents come from these files; none: the cache does not say it any more.
  std::optional<std::vector<std::string>> files;
  double loss = 0, grad_norm = 0;  // as computed, finite or not
  std::string tensor;              // the first whose gradient is not finite; empty: all are finite
  std::optional<double> loss_scale;  // set where the gradient overflowed under it in fp16
};

// Describes all but loss_scale. `tensor` is the first whose gradient is not finite, empty where all
// are. `document_files` is the table of prepare/document_files.h; where it cannot be
// read, a warning says so.
Incident describe_incident(const Batch& batch, double loss, double grad_norm,
                           const std::string& tensor, const std::filesystem::path& document_files);

// Returns the fields of its event (docs/formats/run_folder.md); numbers that are not finite are
// null.
nlohmann::ordered_json incident_fields(const Incident& incident);

// Returns the name of the first tensor with a value that is not finite in a flat buffer, the
// gradient or the weights, among the tensors for which `looks_at` returns true; empty when all are
// finite.
std::string first_bad_tensor(const ParameterLayout& layout, const at::Tensor& flat,
                             const ParameterFilter& looks_at = every_parameter);

// Returns Error(kNumeric) with the message "diverged: `what`; `advice`", to which advice for any
// run is appended directly: `advice` is empty or ends with "; or ".
Error diverged(const std::string& what, const std::string& advice = "");
// Returns the Error(kNumeric) of an incident in step `step` + 1 that the policy "stop" ends.
Error stopped_by_guard(int64_t step, const Incident& incident, const StepDecision& decision);

// Throws Error(kNumeric) if `bad_tensor`, the first weight that is not finite, has a name; no
// checkpoint is made of such weights. `step` is the last step that was applied to them, for the
// message. Of several processes all must give the same name, here and below.
void require_finite_weights(const Config& config, const std::string& bad_tensor, int64_t step);
// Throws Error(kNumeric) at the end of a run unless all weights and the loss of its last step are
// finite. A run without finite numbers is not done, even where the guard lets everything through.
void require_finite_end(const Config& config, const std::string& bad_tensor, int64_t step,
                        std::optional<double> loss);
// Throws Error(kNumeric) after an evaluation whose loss is not finite, if the weights are not
// finite either or no step follows (`is_last`).
void require_only_loss_lost(const Config& config, const std::string& bad_tensor, int64_t step,
                            bool is_last);

}  // namespace lmtrain
