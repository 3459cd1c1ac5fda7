// Looks for obstacles that keep a new run from beginning, before anything is written. `train` and
// `train --dry-run` throw the first obstacle, and `plan` lists all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/run_folder.h"
#include "checkpoint/state.h"
#include "config/config.h"
#include "prepare/prepare.h"
#include "training/plan.h"

namespace lmtrain {

// Throws Error(kUsage) when the folder is a model of transformers. If it is a run too, throws the
// error of require_config_of_run (checkpoint/run_config.h).
void require_no_model(const RunFolder& run);
// Checks the folder of a new run, without data, and creates nothing. Throws the errors of
// require_no_model, and:
//   Error(kUsage)  the folder already holds a run, or the rest of one
//   Error(kIo)     the folder, or the nearest existing one above it, cannot be written to
void require_new_run(const RunFolder& run);
// Throws Error(kConfig) when there is no held-out text and a setting needs it: the ranking of
// trials of random restart, eval.early_stop, or eval.tasks.
void require_held_out_text(const Config& config, const PreparedData& data);
// Checks the prompts of log.samples and the tasks of eval.tasks. Throws the errors of SampleWriter
// and TaskProbe.
void require_probes(const Config& config, const PreparedData& data);
// Estimates the bytes of a checkpoint, rather a little too high. Here and below `config` is
// resolved.
uint64_t checkpoint_bytes(const Config& config);
// Throws Error(kIo) when there is no room for one checkpoint.
void require_room_for_checkpoint(const Config& config, const RunFolder& run);
// Does the same for a run that goes on from the checkpoint of this state. First removes checkpoints
// that `config` does not keep (checkpoint/retention.h), since `config` may have changed.
void make_room_for_checkpoint(const Config& config, const RunFolder& run,
                              const TrainingState& state);

// Returns the messages of all errors for a run of `num_processes`; empty if it can begin. Beside
// the checks above it makes the checks of distributed/process_checks.h, require_memory and, on a
// CPU, require_longest_row (training/micro_batch_limits.h).
std::vector<std::string> start_obstacles(const Config& config, const PreparedData& data,
                                         const RunFolder& run, int num_processes);

// Estimates the disk space of a run's checkpoints from shapes and settings. `at_once` is missing if
// it depends on a duration of time.
struct CheckpointRoom {
  uint64_t each = 0;               // bytes of one checkpoint
  std::optional<int64_t> at_once;  // most checkpoints at a time, one being written included
  uint64_t available = 0;          // free bytes there; UINT64_MAX: not known
  std::filesystem::path where;     // the folder, or the nearest existing one above it

  // Returns whether the checkpoints take more than is free, so that the disk would fill up.
  bool is_short() const { return at_once && each * static_cast<uint64_t>(*at_once) > available; }
};
CheckpointRoom checkpoint_room(const Config& config, const RunPlan& plan, const RunFolder& run);
// Returns "at most 4 at once of 1.2 GiB each, 3.1 GiB free in /runs", for people.
std::string describe_room(const CheckpointRoom& room);

}  // namespace lmtrain
