// Lets one run go on from a checkpoint of another: `resume --from`, and the best of random
// restart's trials.
//
// The checkpoint is copied file by file, checked against its manifest on the way, and published by
// rename. Just before it is published, metrics.jsonl is copied whole, over that of the run; the run
// cuts it back to the checkpoint when it begins. Only state.json is changed: it names the run that
// it is copied to. Nothing of the old run is changed.
#pragma once

#include <cstdint>

#include "checkpoint/run_folder.h"

namespace lmtrain {

// Replaces the checkpoint of this step in `to`, if there is one. The lock of `to` must be held.
// Throws Error(kCheckpoint) when a file is damaged, Error(kIo) when there is no room.
void copy_checkpoint(const RunFolder& from, int64_t step, const RunFolder& to);

// Copies the checkpoint that a branch begins at into a branch that has no checkpoint, because the
// process that began it was killed or its checkpoints were removed. Where it had trained before, it
// puts its metrics.jsonl aside first (metrics_aside() of run/records/metrics_check.h). Does nothing
// for another run. Throws Error(kCheckpoint), with the command that begins it anew, when the other
// run does not have the checkpoint any more. The lock of `run` must be held.
void finish_branch(const RunFolder& run);

}  // namespace lmtrain
