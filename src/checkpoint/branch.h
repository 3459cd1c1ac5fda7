// A branch is a new run that begins at a checkpoint of another run. The other run's folder is only
// read.
#pragma once

#include <cstdint>
#include <optional>

#include "checkpoint/run_folder.h"
#include "config/config.h"

namespace lmtrain {

// Returns the step of the checkpoint of `from` that a branch begins at: `step` if given, else the
// step of the newest valid checkpoint. The files of the checkpoint are verified. Throws
// Error(kUsage) when there is no such checkpoint; Error(kCheckpoint) when the checkpoint is damaged
// (without `step`: when all are) or belongs to another run than `from`.
int64_t checkpoint_of_branch(const RunFolder& from, std::optional<int64_t> step);

// Turns `config`, the config of the original run, into the config of `branch`. It gets the name and
// run_dir of `branch`, and `seed`, the seed of the checkpoint. Random restart is off, since the
// checkpoint belongs to one trial alone.
Config config_of_branch(const Config& config, int64_t seed, const RunFolder& branch);

}  // namespace lmtrain
