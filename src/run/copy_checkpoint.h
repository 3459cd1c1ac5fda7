// One run goes on from a checkpoint of another: `resume --from`, and the best of random restart's
// trials.
//
// The checkpoint is copied file by file, checked against its manifest on the way, and published by
// rename; before it the lines of metrics.jsonl, which the run cuts back to the checkpoint when it
// begins. Only its state.json is changed: it names the run that it is copied to. Nothing of the old
// run is changed. Error(kCheckpoint) when a file is damaged.
#pragma once

#include <cstdint>

#include "checkpoint/run_folder.h"

namespace lmtrain {

void copy_checkpoint(const RunFolder& from, int64_t step, const RunFolder& to);

// Copies the checkpoint that a branch begins at where the branch has no checkpoint: the process
// that began it was killed, or its checkpoints were removed. Error(kCheckpoint) with the command
// that begins it anew when the other run has the checkpoint no more. Does nothing for a run that is
// no branch. The lock of `run` must be held.
void finish_branch(const RunFolder& run);

}  // namespace lmtrain
