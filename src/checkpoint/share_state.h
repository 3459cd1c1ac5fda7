// Makes the processes of a run begin alike. Only rank 0 reads checkpoints, and the others get its
// state and weights. All get the micro-batch limits that fit every process. The data and the
// processors of all processes are compared. Every process calls each of these functions at the same
// point.
#pragma once

#include <string>

#include "batching/batch.h"
#include "checkpoint/state.h"
#include "distributed/optimizer_shards.h"
#include "distributed/processes.h"
#include "model/parameters.h"

namespace lmtrain {

// Copies the state and weights of rank 0 to all other processes. If weights are divided, copies
// only the state.
void share_state(Processes& processes, const OptimizerShards& shards, TrainingState& state,
                 Parameters& parameters);

// Gives every process the same limits: for each length the fewest rows that any process takes.
void share_limits(Processes& processes, MicroBatchLimits& limits);

// Compares every process with rank 0. `fingerprint` identifies the data. `instructions` is a text
// that describes processor, threads and instruction set; weights drift apart where it differs. The
// message names the rank that differs, and what it has. Throws:
//   Error(kData)   the data differ
//   Error(kUsage)  the version of lmtrain or `instructions` differ
void require_alike(Processes& processes, const std::string& fingerprint,
                   const std::string& instructions);

}  // namespace lmtrain
