// A branch is a new run that begins at a checkpoint of another run. The other run's folder is only
// read.
#pragma once

#include <cstdint>
#include <optional>

#include "checkpoint/run_folder.h"
#include "config/config.h"

namespace lmtrain {

// Returns the step of the checkpoint of `from` that a branch begins at: `step` if it is given, else
// that of the newest valid one. The files of the checkpoint are verified. Throws Error(kUsage) when
// there is no such checkpoint; Error(kCheckpoint) when it is damaged (without `step`: when all are)
// or belongs to another run than `from`.
int64_t checkpoint_of_branch(const RunFolder& from, std::optional<int64_t> step);

// Turns `config`, that of the run that is branched from, into the config of `branch`: name and
// run_dir are those of `branch`, `seed` is the seed of the checkpoint, and random restart is off,
// since the checkpoint belongs to one trial alone.
Config config_of_branch(const Config& config, int64_t seed, const RunFolder& branch);

}  // namespace lmtrain
