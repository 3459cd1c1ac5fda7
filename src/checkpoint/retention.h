// Retention decides which checkpoints of a run stay: the newest `checkpoint.keep`, the
// `checkpoint.keep_best` with the lowest held-out loss, and those that are kept for good. Which
// these are follows from the folder and the newest state alone, so a run that was killed and
// resumed keeps the same ones. The newest checkpoint always stays.
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

// Returns the steps of those with the lowest held-out losses, at most `count`, the lowest first;
// of equal losses the earlier step comes first.
std::vector<int64_t> best_checkpoints(const std::vector<SavedCheckpoint>& saved, int64_t count);
// Returns the same of the checkpoints in a folder, whose newest state is `newest`.
std::vector<int64_t> best_checkpoints(const RunFolder& run, const TrainingState& newest,
                                      int64_t count);
// Returns the steps of those to remove. `newest_first` is sorted by step.
std::vector<int64_t> old_checkpoints(const std::vector<SavedCheckpoint>& newest_first,
                                     const CheckpointConfig& config);

// Removes the old ones of the checkpoints up to the step of `newest`, the state of the newest one.
// Later checkpoints, which are damaged or of a future that a resume has left, are neither counted
// nor removed. A checkpoint whose state.json cannot be read is kept as one of the newest alone.
// Where the file system refuses, it warns: the newest one is there, and the next call tries again.
void remove_old_checkpoints(const RunFolder& run, const TrainingState& newest,
                            const CheckpointConfig& config);

}  // namespace lmtrain
