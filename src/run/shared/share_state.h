// The things that the processes of a run begin with alike: the state, weights and optimizer buffers
// of rank 0, which alone reads checkpoints; the rows of a micro-batch, as few as some process
// needs; and the data and processor that each must have by itself.
#pragma once

#include <string>

#include "checkpoint/state.h"
#include "model/parameters.h"
#include "optim/optimizer.h"
#include "processes/processes.h"
#include "train/micro_batch_limits.h"

namespace lmtrain {

// Every process has the first one's state, weights and optimizer buffers afterwards.
void share_state(Processes& processes, TrainingState& state, Parameters& parameters,
                 const Optimizer& optimizer);

// For every length the fewest rows that some process takes, in every process.
void share_limits(Processes& processes, MicroBatchLimits& limits);

// Error(kData) when a process has found other data than rank 0 under the same paths, Error(kUsage)
// when it is another lmtrain, or its processor computes with other instructions: the weights would
// drift apart. The message says which rank, and what it has.
void require_alike(Processes& processes, const std::string& fingerprint,
                   const std::string& instructions);

}  // namespace lmtrain
