// Looks for obstacles that keep a new run from beginning, before anything is written: `train` and
// `train --dry-run` throw the first one, and `plan` lists all of them.
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

// Throws Error(kUsage) when the folder is a model of transformers, and the error of
// require_config_of_run (checkpoint/run_config.h) when it is a run too.
void require_no_model(const RunFolder& run);
// Throws the errors of require_no_model; Error(kUsage) when the folder holds a run already, or what
// is left of one; Error(kIo) when it, or the folder it would be made in, cannot be written to.
// Creates nothing, and needs no data.
void require_new_run(const RunFolder& run);
// Throws Error(kConfig) when there is no held-out text and a setting needs some: trials of random
// restart have to be ranked, eval.early_stop ends the run, or evaluations ask eval.tasks.
void require_held_out_text(const Config& config, const PreparedData& data);
// Throws what is wrong with the prompts of log.samples and the tasks of eval.tasks: the errors of
// SampleWriter and TaskProbe.
void require_probes(const Config& config, const PreparedData& data);
// Returns the bytes that a checkpoint takes, or a little more. `config` is resolved, here and
// below.
uint64_t checkpoint_bytes(const Config& config);
// Throws Error(kIo) when there is no room for one checkpoint.
void require_room_for_checkpoint(const Config& config, const RunFolder& run);
// The same for a run that goes on from the checkpoint of this state. Removes the checkpoints that
// `config` does not keep first (checkpoint/retention.h): it may have been changed since they were
// written.
void make_room_for_checkpoint(const Config& config, const RunFolder& run,
                              const TrainingState& state);

// Returns the messages of all errors that the above, the checks of distributed/process_checks.h,
// require_memory and, on a CPU, require_longest_row (training/micro_batch_limits.h) throw for a run of
// `num_processes`. Empty: it can begin.
std::vector<std::string> start_obstacles(const Config& config, const PreparedData& data,
                                         const RunFolder& run, int num_processes);

// Estimates the room that the checkpoints of a run take from shapes and settings. `at_once` is
// missing where it depends on a duration of time.
struct CheckpointRoom {
  uint64_t each = 0;               // bytes of one checkpoint
  std::optional<int64_t> at_once;  // the most there are at a time, one being written included
  uint64_t available = 0;          // bytes free where they go; UINT64_MAX: not known
  std::filesystem::path where;     // the folder, or the one it would be made in

  // Returns true where they take more than is free: the run would end when the disk is full.
  bool is_short() const { return at_once && each * static_cast<uint64_t>(*at_once) > available; }
};
CheckpointRoom checkpoint_room(const Config& config, const RunPlan& plan, const RunFolder& run);
// Returns "at most 4 at once of 1.2 GiB each, 3.1 GiB free in /runs", for people.
std::string describe_room(const CheckpointRoom& room);

}  // namespace lmtrain
