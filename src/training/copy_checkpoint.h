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

// Copies metrics.jsonl whole, atomically over that of `to`. Does nothing where `from` has none.
// Throws Error(kIo).
void copy_metrics(const RunFolder& from, const RunFolder& to);

// Copies the checkpoint of this step from `from` to `to`, in the place of one that is there. The
// lock of `to` must be held. Throws Error(kCheckpoint) when a file is damaged; Error(kIo) when one
// is missing, when there is no room, or when the system refuses.
void copy_checkpoint(const RunFolder& from, int64_t step, const RunFolder& to);

// Serves a branch that has no checkpoint, because the process that began it was killed or its
// checkpoints were removed: copies the checkpoint that it begins at into it. Where the branch had
// trained before, its metrics.jsonl is put aside first, with a warning (put_metrics_aside()
// of runlog/metrics_check.h). Does nothing where `run` is no branch or has a checkpoint. The
// lock of `run` must be held. Throws Error(kCheckpoint), with the command that begins the branch
// anew, when the run that it branches off does not have a valid checkpoint of that step any more;
// Error(kIo).
void finish_branch(const RunFolder& run);

}  // namespace lmtrain
