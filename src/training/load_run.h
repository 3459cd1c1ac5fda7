// Loads a run from a checkpoint, or sets it to its beginning: state, weights and optimizer buffers,
// adapted to the present config, and the order of data for that state.
//
// A resume and a rollback both take load_run() and order_spec(). A rollback begins with
// newest_checkpoint() and ends with keep_after_rollback(); a resume gets its checkpoint from
// RestartableRun.
#pragma once

#include <cstdint>
#include <optional>

#include "batching/batch_order.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/state.h"
#include "config/config.h"
#include "distributed/optimizer_shards.h"
#include "distributed/processes.h"
#include "formats/token_shard.h"
#include "prepare/prepare.h"
#include "schedule/run_clock.h"
#include "training/engine.h"

namespace lmtrain {

// Returns the step of the newest valid checkpoint; nothing when the run has none. Every process
// calls it; rank 0 searches (newest_valid_checkpoint) and tells the others. Throws the errors of
// newest_valid_checkpoint in rank 0.
std::optional<int64_t> newest_checkpoint(const RunFolder& run, Processes& processes);

// Fills weights and optimizer of `engine`, and returns the state, adapted to `config`:
//   with `checkpoint`     from the checkpoint of that step, whose files were verified
//   without `checkpoint`  for the beginning of a run, with the weights of config.init_from, or
//                         with random weights by config.seed
// Every process calls it; only rank 0 reads files. Each process gets all weights, or with divided
// weights its own, and the optimizer buffers of the tensors that it updates. Throws the errors of
// require_memory_to_read, load_checkpoint, ReadBuffer, load_initial_weights and `processes`.
TrainingState load_run(const Config& config, const PreparedData& data, const RunFolder& run,
                       std::optional<int64_t> checkpoint, Engine& engine, Processes& processes,
                       OptimizerShards& shards);

// Adapts a state to a config that may have changed since:
//   another length of the run  adds a replan, unless the length is the one that the run has after
//                              its changes so far (train.replanned_at); coming batches are no
//                              longer skipped, since their numbers now mean other batches
//   another micro_tokens       forgets the limits of micro-batches
//   precision                  adds a loss scale for fp16, and removes it otherwise
void adapt_state(TrainingState& state, const Config& config);

// Returns how many of the changes of train.replanned_at the state has made.
size_t count_paced_replans(const TrainingState& state);
// Makes the next change of train.replanned_at in the state: the run gets `tokens` targets in all,
// and its schedules end there. The run must count tokens. `now` is the clock of the state. Batches
// to come that are skipped keep their numbers.
void replan_at_pace(TrainingState& state, const RunClock& now, int64_t tokens);

// Returns the inputs that determine a run's order of data in this state. `shard` is the opened
// data.train_shard, and must outlive the order.
BatchOrderSpec order_spec(const Config& config, const PreparedData& data, const TokenShard& shard,
                          const TrainingState& state);
// Returns the same for a run that is new.
BatchOrderSpec order_spec(const Config& config, const PreparedData& data, const TokenShard& shard);

// Copies from `left`, the state before a rollback, into `loaded`, the state after it, what the
// run must not forget:
//   skipped_batches of the guard, with `refused_batch` added
//   how many times in a row the run has gone back to this step
//   the limits of micro-batches
void keep_after_rollback(TrainingState& loaded, const TrainingState& left, int64_t refused_batch);

}  // namespace lmtrain
