// Retention decides which checkpoints of a run stay, and removes the others. The newest
// `checkpoint.keep` stay, the `checkpoint.keep_best` with the lowest held-out loss, and the
// checkpoints that are kept for good. The newest one always stays. The decision follows from the
// folder and the newest state alone, so a run that was killed and resumed keeps the same ones.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "checkpoint/run_folder.h"
#include "checkpoint/state.h"
#include "config/config.h"

namespace lmtrain {

struct SavedCheckpoint {
  int64_t step = 0;
  bool kept = false;  // TrainingState::kept
  // The held-out loss at this very step, in nats a target; none: there was no evaluation, or its
  // loss was not finite.
  std::optional<double> eval_loss{};
};

// Returns the steps of the checkpoints with the lowest held-out losses, at most `count`. The lowest
// loss comes first; of equal losses the earlier step comes first.
std::vector<int64_t> best_checkpoints(const std::vector<SavedCheckpoint>& saved, int64_t count);
// Returns the same of the checkpoints in a folder, whose newest state is `newest`.
std::vector<int64_t> best_checkpoints(const RunFolder& run, const TrainingState& newest,
                                      int64_t count);
// Returns the steps of the checkpoints to remove. `newest_first` is sorted by step.
std::vector<int64_t> old_checkpoints(const std::vector<SavedCheckpoint>& newest_first,
                                     const CheckpointConfig& config);

// Removes the old ones of the checkpoints up to the step of `newest`, the state of the newest one.
// Later checkpoints, which are damaged or of a future that a resume has left, are neither counted
// nor removed. A checkpoint whose state.json cannot be read is kept as one of the newest alone.
// Where the file system refuses, it warns: the newest one is there, and the next call tries again.
void remove_old_checkpoints(const RunFolder& run, const TrainingState& newest,
                            const CheckpointConfig& config);

// The three functions below remove checkpoints, and never through a symbolic link: where a
// checkpoint was moved elsewhere and a link was left in its place, only the link is removed. All
// throw Error(kIo) when the system refuses.
//
// Removes the manifest first, so that a half-removed checkpoint is not taken for whole. It is no
// error when there is no checkpoint of this step.
void remove_checkpoint(const RunFolder& run, int64_t step);

// Removes all checkpoints of the run and the folder checkpoints() itself; all manifests go first.
void remove_checkpoints(const RunFolder& run);

// Removes the checkpoints of the trial of random restart that began with `seed`. Nothing is removed
// where the folder of the trial, or the folder of all trials, has become a link.
void remove_trial_checkpoints(const RunFolder& run, int64_t seed);

}  // namespace lmtrain
