// Gives all processes of a run the same state and limits, and compares them. Every process calls
// each of these functions at the same point. They also throw the errors of `processes`.
#pragma once

#include <string>

#include "batching/batch.h"
#include "checkpoint/state.h"
#include "distributed/optimizer_shards.h"
#include "distributed/processes.h"
#include "model/parameters.h"

namespace lmtrain {

// Copies the state, masters and working weights of rank 0, which alone reads checkpoints, to all
// processes. With divided weights copies only the state.
void share_state(Processes& processes, const OptimizerShards& shards, TrainingState& state,
                 Parameters& parameters);

// Gives every process the same limits: for each length the fewest rows that any process takes.
void share_limits(Processes& processes, MicroBatchLimits& limits);

// Compares every process with rank 0. `fingerprint` identifies the data. `instructions` describes
// processor, threads and instruction set, which decide how results are rounded. The message names
// the rank that differs. Throws:
//   Error(kData)   the data differ
//   Error(kUsage)  the version of lmtrain or `instructions` differ
void require_alike(Processes& processes, const std::string& fingerprint,
                   const std::string& instructions);

}  // namespace lmtrain
