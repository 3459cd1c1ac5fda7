// A description of a batch that must not be applied, and the errors of a run whose numbers are
// lost. run/anomaly_policy.h and the trainer decide what is done about either.
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
#include "checkpoint/state.h"
#include "config/config.h"
#include "model/parameters.h"
#include "run/anomaly_policy.h"

namespace lmtrain {

struct Incident {
  int64_t batch = 0;            // its position in the order of data
  int64_t length = 0;           // of its rows, in targets
  std::set<int64_t> documents;  // whose text is in it, by their numbers in the train shard
  // The files these documents are from; none: the cache does not say it any more.
  std::optional<std::vector<std::string>> files;
  double loss = 0, grad_norm = 0;    // as computed, finite or not
  std::string tensor;                // the first whose gradient is not finite; empty: all are
  std::optional<double> loss_scale;  // under which the gradient overflowed in fp16
};

// `gradient` is flat, as `layout` says, and not clipped. `document_files` is the table of
// corpus/shards/document_files.h; where it cannot be read, that is a warning.
Incident describe_incident(const Batch& batch, double loss, double grad_norm,
                           const ParameterLayout& layout, const at::Tensor& gradient,
                           const std::filesystem::path& document_files);

// The fields of its event (docs/formats/run_folder.md); numbers that are not finite are null.
nlohmann::ordered_json incident_fields(const Incident& incident);

// The name of the first tensor that is not finite in a flat buffer, the gradient or the weights;
// empty when all are.
std::string first_bad_tensor(const ParameterLayout& layout, const at::Tensor& flat);

// Error(kNumeric) "diverged: `what`; `advice`..." with what may help any run.
Error diverged(const std::string& what, const std::string& advice = "");
// Error(kNumeric) of an incident in the step after `step` whose policy is "stop".
Error stopped_by_guard(int64_t step, const Incident& incident, const StepDecision& decision);

// Error(kNumeric) unless all weights are finite: no checkpoint is made of others. `step`: after
// which they are looked at.
void require_finite_weights(const Config& config, const Parameters& parameters, int64_t step);
// The same for the end of a run, which the loss of its last step must be fit for too. A run that
// has lost its numbers is not done, even where the guard lets everything through.
void require_finite_end(const Config& config, const Parameters& parameters,
                        const TrainingState& state);
// Error(kNumeric) for a held-out loss that is not finite where the weights are not either, or where
// no step follows. Returns whether it is finite.
bool require_finite_evaluation(const Config& config, const Parameters& parameters,
                               const TrainingState& state, double eval_loss, bool is_last);

}  // namespace lmtrain
