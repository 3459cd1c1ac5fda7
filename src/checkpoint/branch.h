// A branch: a new run that begins at a checkpoint of another, which is only read.
#pragma once

#include <cstdint>
#include <optional>

#include "checkpoint/run_folder.h"
#include "config/config.h"

namespace lmtrain {

// The checkpoint of `from` that a branch begins at, its files verified: that of `step`, else the
// newest valid one. Error(kUsage) when there is none, Error(kCheckpoint) when it is damaged.
int64_t checkpoint_of_branch(const RunFolder& from, std::optional<int64_t> step);

// `config` of the run that is branched from, as that of `branch`. Of random restart's trials only
// the one whose `seed` the checkpoint has is in the branch.
Config config_of_branch(const Config& config, int64_t seed, const RunFolder& branch);

}  // namespace lmtrain
