// The guard judges each step, once loss and gradient norm are known, and says what becomes of it.
//
// A Verdict applies the step, skips its batch, rolls the run back, or ends the run. The loss and
// the gradient norm must be finite and, where the config asks for it, no spike. The trainer carries
// the verdict out. The same file describes a refused batch, and makes the errors of a run whose
// weights or loss are not finite any more.
//
// A spike is a value more than spike_sigma standard deviations above the mean of its window: the
// last guard.window losses or gradient norms. The deviation counts as at least 0.1 % of the mean.
// Each sequence length has a window of its own, since the loss depends on the length. There are no
// spikes until the window is half full. Only finite values of applied steps enter it. The windows
// are plain data in state.json, so a resumed run judges alike.
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
  std::vector<int64_t> skipped_batches;    // left out from now on, after rollbacks
  int64_t rollback_step = 0;               // the checkpoint that was last gone back to
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
  // Whether a skipped batch counts towards guard.max_skips. It does not after an overflow, unless
  // the loss scale is already the lowest.
  bool counts_as_skip = true;
  // A text for people, or "loss_scale" after an overflow (docs/formats/run_folder.md).
  std::string reason{};
};

// Returns the verdict on one step; a pure function. A policy that is "off" finds nothing.
// `loss_scale` is the loss scale of fp16, and null in other precisions. `loss` and `grad_norm` are
// already divided by it. `length` is the row length of the batch, in tokens.
Verdict judge_step(const GuardConfig& config, const GuardState& state, const LossScale* loss_scale,
                   int64_t length, double loss, double grad_norm);
// Records an applied step: its values, where both are finite, enter the window of its length, and
// skips_in_a_row becomes 0. Where on_spike is off, all windows are emptied instead.
void note_update(const GuardConfig& config, GuardState& state, int64_t length, double loss,
                 double grad_norm);

// ---- A batch that is not applied ----

struct RefusedBatch {
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
// are (first_bad_tensor of model/parameters.h). `document_files` is the table of
// prepare/source_runs.h; where it cannot be read, a warning says so.
RefusedBatch describe_refused(const Batch& batch, double loss, double grad_norm,
                              const std::string& tensor,
                              const std::filesystem::path& document_files);
// Returns the fields of its event (docs/formats/run_folder.md); numbers that are not finite are
// null.
nlohmann::ordered_json refused_fields(const RefusedBatch& refused);

// ---- The errors of a run that has diverged ----

// Returns Error(kNumeric) with the message "diverged: `what`; `advice`", to which advice for any
// run is appended directly: `advice` is empty or ends with "; or ".
Error diverged(const std::string& what, const std::string& advice = "");
// Returns the Error(kNumeric) of a batch in step `step` + 1 that the policy "stop" refuses.
Error stopped_by_guard(int64_t step, const RefusedBatch& refused, const Verdict& verdict);

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
