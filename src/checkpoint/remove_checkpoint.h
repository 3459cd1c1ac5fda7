// These functions remove checkpoints, and never through a symbolic link: where a checkpoint was
// moved elsewhere and a link was left in its place, only the link is removed. All throw Error(kIo)
// when the system refuses.
#pragma once

#include <cstdint>

#include "checkpoint/run_folder.h"

namespace lmtrain {

// Removes the manifest first, so that a half-removed checkpoint is not taken for whole. It is no
// error when there is no checkpoint of this step.
void remove_checkpoint(const RunFolder& run, int64_t step);

// Removes all checkpoints of the run and the folder checkpoints() itself; all manifests go first.
void remove_checkpoints(const RunFolder& run);

// Removes the checkpoints of the trial of random restart that began with `seed`. Nothing is removed
// where the folder of the trial, or the folder of all trials, has become a link.
void remove_trial_checkpoints(const RunFolder& run, int64_t seed);

}  // namespace lmtrain
