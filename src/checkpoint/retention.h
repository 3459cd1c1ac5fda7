// Decides which checkpoints of a run stay, and removes the others. These stay: the newest
// `checkpoint.keep`, at least one; the `checkpoint.keep_best` with the lowest held-out loss; and
// the ones with TrainingState::kept. The folder and the newest state alone decide, so a run that
// was killed and resumed keeps the same checkpoints.
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
  // The held-out loss at this step, in nats a target; nothing: no evaluation, or a loss that is not
  // finite.
  std::optional<double> eval_loss{};
};

// Returns the steps of the `count` checkpoints with the lowest held-out losses, or of fewer. The
// lowest loss comes first; of equal losses the earlier step.
std::vector<int64_t> best_checkpoints(const std::vector<SavedCheckpoint>& saved, int64_t count);
// Returns the same for the checkpoints in a folder; `newest` is the newest state of the run.
std::vector<int64_t> best_checkpoints(const RunFolder& run, const TrainingState& newest,
                                      int64_t count);
// Returns the steps of the checkpoints to remove. `newest_first` is sorted by step, descending.
std::vector<int64_t> old_checkpoints(const std::vector<SavedCheckpoint>& newest_first,
                                     const CheckpointConfig& config);

// Removes the old_checkpoints() among the checkpoints up to newest.step; `newest` is the state of
// the newest checkpoint. Neither counts nor removes later checkpoints, which are damaged or of a
// future that a resume has left. A checkpoint with a damaged state.json stays only as one of the
// newest. If the file system refuses, warns, and the next call tries again; never throws Error.
void remove_old_checkpoints(const RunFolder& run, const TrainingState& newest,
                            const CheckpointConfig& config);

// The three functions below remove checkpoints. They never follow a symbolic link: if a link stands
// in place of a checkpoint, they remove only the link. They throw Error(kIo) if the system refuses.
//
// Removes the checkpoint of this step, if there is one: its manifest first, so that a half-removed
// checkpoint is not valid.
void remove_checkpoint(const RunFolder& run, int64_t step);

// Removes all checkpoints of the run, all manifests first, and the folder checkpoints().
void remove_checkpoints(const RunFolder& run);

// Removes the checkpoints of the trial that began with `seed`. Does nothing if the folder of the
// trial, or of all trials, is a link.
void remove_trial_checkpoints(const RunFolder& run, int64_t seed);

}  // namespace lmtrain
