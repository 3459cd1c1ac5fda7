// One run goes on from a checkpoint of another: `resume --from`, and the best of random restart's
// trials.
//
// The checkpoint is copied file by file, checked against its manifest on the way, and published by
// rename; before it the lines of metrics.jsonl, which the run cuts back to the checkpoint when it
// begins. Nothing of the old run is changed. Error(kCheckpoint) when a file is damaged.
#pragma once

#include <cstdint>

#include "checkpoint/run_folder.h"

namespace lmtrain {

void copy_checkpoint(const RunFolder& from, int64_t step, const RunFolder& to);

}  // namespace lmtrain
