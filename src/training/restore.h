// These functions give a run what it goes on from: state, weights and optimizer buffers as of a
// checkpoint or of the beginning, adapted to the present config, and the order of data that belongs
// to that state.
//
// A resume and a rollback take the same steps: newest_checkpoint(), restore_run(), order_spec();
// after a rollback keep_after_rollback() follows.
#pragma once

#include <cstdint>
#include <optional>

#include "batching/batch_order.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/state.h"
#include "config/config.h"
#include "prepare/prepare.h"
#include "formats/token_shard.h"
#include "distributed/processes.h"
#include "distributed/optimizer_shards.h"
#include "training/engine.h"

namespace lmtrain {

// Returns the step of the newest valid checkpoint (newest_valid_checkpoint), as rank 0 has found
// it; nothing when the run has none. Every process calls it. Throws the errors of
// newest_valid_checkpoint in rank 0.
std::optional<int64_t> newest_checkpoint(const RunFolder& run, Processes& processes);

// Fills the weights and the optimizer of `engine` and returns the state, adapted to `config`. They
// are those of the step `checkpoint`, whose files were verified, or, where there is none, of the
// beginning: random weights of config.seed, or those of config.init_from. Rank 0 reads, and every
// process has the same weights afterwards, and the buffers of the tensors that it updates; all call
// it. Throws the errors of load_checkpoint, ReadBuffer and load_initial_weights.
TrainingState restore_run(const Config& config, const PreparedData& data, const RunFolder& run,
                          std::optional<int64_t> checkpoint, Engine& engine, Processes& processes,
                          OptimizerShards& shards);

// Adapts a state to a config that may have changed since. Another length of the run becomes a
// replan, and which of the batches to come are left out is forgotten, since these numbers are those
// of other batches then; another batch.micro_tokens is tried anew; a loss scale is there exactly
// under fp16.
void adapt_state(TrainingState& state, const Config& config);

// Returns what determines the order of data of a run in this state. `shard` is that of
// data.train_shard and must outlive the order.
BatchOrderSpec order_spec(const Config& config, const PreparedData& data, const TokenShard& shard,
                          const TrainingState& state);

// Puts into `restored`, the state that a rollback has restored, what must not be forgotten of the
// state `left` that the run was in: the excluded batches, to which `refused_batch` is added, how
// often the run has gone back to this step without going back to another, and the limits of
// micro-batches.
void keep_after_rollback(TrainingState& restored, const TrainingState& left, int64_t refused_batch);

}  // namespace lmtrain
