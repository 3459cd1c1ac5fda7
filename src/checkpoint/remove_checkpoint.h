// Checkpoints that a run no longer needs are removed, and never through a symbolic link: where one
// was moved elsewhere and a link left in its place, the link alone goes. Error(kIo).
#pragma once

#include <cstdint>

#include "checkpoint/run_folder.h"

namespace lmtrain {

// The manifest goes first, so that a half-removed checkpoint is not taken for whole. Missing is
// fine.
void remove_checkpoint(const RunFolder& run, int64_t step);

// All of them, and checkpoints() itself; all manifests first.
void remove_checkpoints(const RunFolder& run);

// Removes those of the trial of random restart that began with `seed`. A trial whose whole folder
// has become a link keeps them.
void remove_trial_checkpoints(const RunFolder& run, int64_t seed);

}  // namespace lmtrain
