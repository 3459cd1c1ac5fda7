// Copies a checkpoint from one run to another, which goes on from it: a branch (`resume --from`) or
// the best trial of random restart. A branch is a new run that begins at a checkpoint of another
// run.
//
// The checkpoint is copied file by file, checked against its manifest, and published by rename.
// Only its state.json changes: it names the new run. Before the checkpoint is published, the whole
// metrics.jsonl of the old run replaces the one of the new run; the new run cuts it back to the
// checkpoint when it begins. The old run is only read.
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

// Replaces the metrics.jsonl of `to` atomically by the metrics.jsonl of `from`. Does nothing when
// `from` has none. Throws Error(kIo).
void copy_metrics(const RunFolder& from, const RunFolder& to);

// Copies the checkpoint of this step from `from` to `to`, where it replaces an existing one. The
// lock of `to` must be held. Throws:
//   Error(kCheckpoint)  a file is damaged
//   Error(kIo)          a file is missing, there is no room, or the system refuses
void copy_checkpoint(const RunFolder& from, int64_t step, const RunFolder& to);

// Copies into the branch `run` the checkpoint that it begins at, if the branch has no checkpoint.
// That is so when the process that began it was killed, or its checkpoints were removed. If the
// branch has trained before, its metrics.jsonl is first put aside, with a warning
// (put_metrics_aside() of runlog/metrics_check.h). Does nothing when `run` is no branch or has
// a checkpoint. The lock of `run` must be held. Throws Error(kIo), and:
//   Error(kCheckpoint)  the old run has no valid checkpoint of that step any more; the message has
//                       the command that begins the branch anew
void finish_branch(const RunFolder& run);

}  // namespace lmtrain
