// Copies a checkpoint from one run to another, which goes on from it. That run is a branch (`resume
// --from`), which begins at a checkpoint of another run, or the run of the best trial of random
// restart.
//
// copy_checkpoint() copies file by file, checks each file against the manifest, and publishes by
// rename. Only state.json changes: it names the new run, and in a branch forgets all evaluations
// before the checkpoint's own. Before it publishes, it replaces the metrics.jsonl of the new run by
// the whole metrics.jsonl of the old run. The new run cuts the file back to the checkpoint when it
// begins. The old run is only read.
#pragma once

#include <cstdint>
#include <optional>

#include "checkpoint/run_folder.h"
#include "config/config.h"

namespace lmtrain {

// Returns the step of the checkpoint of `from` that a branch begins at: `step` if given, else the
// step of the newest valid checkpoint. Verifies its files. Throws:
//   Error(kUsage)       there is no such checkpoint
//   Error(kCheckpoint)  it (without `step`: every one) is damaged, or belongs to another run
int64_t checkpoint_of_branch(const RunFolder& from, std::optional<int64_t> step);

// Returns the config of `branch`, made from the `config` of the original run: with the name and
// run_dir of `branch`, with `seed`, the seed of the checkpoint, and without random restart, since
// the checkpoint belongs to one trial.
Config config_of_branch(const Config& config, int64_t seed, const RunFolder& branch);

// Replaces the metrics.jsonl of `to` atomically by the metrics.jsonl of `from`. Does nothing when
// `from` has none. Throws Error(kIo).
void copy_metrics(const RunFolder& from, const RunFolder& to);

// Copies the checkpoint of this step from `from` to `to`, where it replaces an existing one. The
// lock of `to` must be held. Throws:
//   Error(kCheckpoint)  a file is damaged
//   Error(kIo)          a file is missing, there is no room, or the system refuses
void copy_checkpoint(const RunFolder& from, int64_t step, const RunFolder& to);

// If `run` is a branch without a checkpoint, copies the checkpoint that it begins at into it. (A
// kill interrupted the copy, or its checkpoints were removed.) If the branch has trained before,
// first puts its metrics.jsonl aside, with a warning (put_metrics_aside() of
// runlog/metrics_check.h). Otherwise does nothing. The lock of `run` must be held. Throws
// Error(kIo), and:
//   Error(kCheckpoint)  the old run has no valid checkpoint of that step any more; the message has
//                       the command that begins the branch anew
void finish_branch(const RunFolder& run);

}  // namespace lmtrain
