// Makes the processes of a run begin alike: they get the state and weights of rank 0, which alone
// reads checkpoints, and the rows of a micro-batch that fit in all of them. The data and the
// processor of each are compared, since each has its own. Every process calls each of these
// functions at the same point.
#pragma once

#include <string>

#include "batching/micro_batch.h"
#include "checkpoint/state.h"
#include "model/parameters.h"
#include "distributed/processes.h"
#include "distributed/optimizer_shards.h"

namespace lmtrain {

// Copies the state and weights of rank 0 to all other processes; where weights are divided, the
// state alone.
void share_state(Processes& processes, const OptimizerShards& shards, TrainingState& state,
                 Parameters& parameters);

// Gives every process the same limits: for each length the fewest rows that any process takes.
void share_limits(Processes& processes, MicroBatchLimits& limits);

// Throws Error(kData) when a process has found other data than rank 0 under the same paths, by the
// `fingerprint` of the data; Error(kUsage) when it is another version of lmtrain, or its
// `instructions` differ, a text that describes processor, threads and instructions, since the
// weights would drift apart. The message says which rank, and what it has.
void require_alike(Processes& processes, const std::string& fingerprint,
                   const std::string& instructions);

}  // namespace lmtrain
