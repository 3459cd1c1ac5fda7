// The guard judges each step, once loss and gradient norm are known.
//
// Its Verdict is to apply the step, skip its batch, roll the run back, or end the run; the trainer
// carries the verdict out. The config says what becomes of a loss or gradient norm that is not
// finite, or a spike. This file also describes a refused batch, and makes the errors of a run that
// has diverged.
//
// A spike is a value more than spike_sigma standard deviations above the mean of its window: the
// last guard.window losses, or gradient norms, of applied steps whose values are finite. The
// deviation counts as at least 0.1 % of the mean. Each sequence length has its own window. There
// are no spikes until the window is half full. state.json holds the windows, so a resumed run
// judges alike.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "batching/batch.h"
#include "config/config.h"
#include "optim/loss_scale.h"

namespace lmtrain {

// Holds losses and gradient norms of the applied updates at one sequence length, oldest first; at
// most guard.window of each.
struct GuardWindow {
  std::vector<double> losses;
  std::vector<double> grad_norms;
  bool operator==(const GuardWindow&) const = default;
};

struct GuardState {
  std::map<int64_t, GuardWindow> windows;  // by sequence length; empty while on_spike is off
  int64_t skips_in_a_row = 0;              // since the last update
  std::vector<int64_t> skipped_batches;    // refused before rollbacks; the run leaves them out
  int64_t rollback_step = 0;               // the checkpoint of the last rollback
  int64_t rollbacks_in_a_row = 0;          // to that checkpoint
  bool operator==(const GuardState&) const = default;

  // Returns whether the batch is one of skipped_batches.
  bool skips(int64_t batch) const;
};

// ---- The verdict on a step ----

struct Verdict {
  enum class Action { kApply, kSkip, kRollback, kStop };
  // kOverflow: the gradient overflowed under the loss scale of fp16, which must be lowered.
  enum class Cause { kNone, kOverflow, kNotFinite, kSpike };

  Action action = Action::kApply;
  Cause cause = Cause::kNone;  // kNone: the step is applied
  // Whether a skipped batch counts towards guard.max_skips: after an overflow only if the loss
  // scale is already the lowest.
  bool counts_as_skip = true;
  // A text for people, or "loss_scale" after an overflow (docs/formats/run_folder.md).
  std::string reason{};
};

// Returns the verdict on one step. A policy that is "off" finds nothing. `loss_scale` is null
// unless the run is in fp16. With it, a gradient norm that is not finite under a finite loss is an
// overflow, which always skips the batch. `loss` and `grad_norm` are already divided by it.
// `length` is the row length of the batch, in tokens.
Verdict judge_step(const GuardConfig& config, const GuardState& state, const LossScale* loss_scale,
                   int64_t length, double loss, double grad_norm);
// Records an applied step: its values, if both are finite, enter the window of its length, and
// skips_in_a_row becomes 0. If on_spike is off, empties all windows instead.
void note_update(const GuardConfig& config, GuardState& state, int64_t length, double loss,
                 double grad_norm);

// ---- A batch that is not applied ----

struct RefusedBatch {
  int64_t batch = 0;            // its number in the order of data
  int64_t length = 0;           // of its rows, in tokens
  std::set<int64_t> documents;  // with text in it, by their numbers in the train shard
  // The files of these documents; nothing: the cache does not tell any more.
  std::optional<std::vector<std::string>> files;
  double loss = 0, grad_norm = 0;    // as computed, finite or not
  std::string tensor;                // the first whose gradient is not finite; empty: none
  std::optional<double> loss_scale;  // set if the gradient overflowed under it
};

// Describes a refused batch, except loss_scale. `tensor` is first_bad_tensor() (model/parameters.h)
// of the gradient. `document_files` is the table of prepare/source_runs.h; if it cannot be read,
// warns.
RefusedBatch describe_refused(const Batch& batch, double loss, double grad_norm,
                              const std::string& tensor,
                              const std::filesystem::path& document_files);
// Returns the fields of the batch's event (docs/formats/run_folder.md); numbers that are not finite
// are null.
nlohmann::ordered_json refused_fields(const RefusedBatch& refused);

// ---- The errors of a run that has diverged ----

// Returns Error(kNumeric) with the message "diverged: WHAT; ADVICE" and advice for any run.
// `advice` is empty or ends with "; or ".
Error diverged(const std::string& what, const std::string& advice = "");
// Returns the Error(kNumeric) of a batch in step `step` + 1 that the policy "stop" refuses.
Error stopped_by_guard(int64_t step, const RefusedBatch& refused, const Verdict& verdict);

// Throws Error(kNumeric) unless `bad_tensor`, the name of the first weight that is not finite, is
// empty: no checkpoint is made of such weights. `step` is the last applied step, for the message.
// All processes must give the same name, here and below.
void require_finite_weights(const Config& config, const std::string& bad_tensor, int64_t step);
// Throws Error(kNumeric) at the end of a run unless all weights and the loss of its last step are
// finite, even if the guard is off.
void require_finite_end(const Config& config, const std::string& bad_tensor, int64_t step,
                        std::optional<double> loss);
// Call it after an evaluation whose loss is not finite. Throws Error(kNumeric) if a weight is not
// finite either, or no step follows (`is_last`).
void require_only_loss_lost(const Config& config, const std::string& bad_tensor, int64_t step,
                            bool is_last);

}  // namespace lmtrain
