// Obstacles that keep a new run from beginning, looked for before anything is written: `train`
// throws it, `train --dry-run` throws the same, and `plan` tells all of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/run_folder.h"
#include "config/config.h"
#include "corpus/prepare.h"
#include "train/plan.h"

namespace lmtrain {

// Before the data is prepared. Error(kUsage) when the folder holds a run already, or what is left
// of one; Error(kIo) when it, or the folder it would be made in, cannot be written to. Creates
// nothing.
void require_new_run(const RunFolder& run);
// Error(kConfig) when trials of random restart have to be ranked and there is no held-out text.
void require_text_for_trials(const Config& config, const PreparedData& data);
// Error(kIo) when there is no room for one checkpoint. `config` is resolved, here and below.
void require_room_for_checkpoint(const Config& config, const RunFolder& run);

// All that the above, and require_memory and require_longest_row (train/micro_batch_limits.h), say
// of a run. Empty: it can begin.
std::vector<std::string> start_obstacles(const Config& config, const PreparedData& data,
                                         const RunFolder& run);

// The room that the checkpoints of a run take, from shapes and settings.
struct CheckpointRoom {
  uint64_t each = 0;               // bytes of one
  std::optional<int64_t> at_once;  // there at most, one being written included; none: by the clock
  uint64_t available = 0;          // bytes free where they go
  std::filesystem::path where;     // the folder, or the one it would be made in

  // More than are free: the run would end when the disk is full.
  bool is_short() const { return at_once && each * static_cast<uint64_t>(*at_once) > available; }
};
CheckpointRoom checkpoint_room(const Config& config, const RunPlan& plan, const RunFolder& run);
// "at most 4 at once of 1.2 GiB each, 3.1 GiB free in /runs", for people.
std::string describe_room(const CheckpointRoom& room);

}  // namespace lmtrain
