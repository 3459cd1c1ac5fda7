// Chooses the settings that a config leaves open, once the data are prepared: the recipe
// (config/recipe.h), the shape for model.size, and train.tokens for train.time.
#pragma once

#include "config/config.h"
#include "distributed/processes.h"
#include "prepare/prepare.h"

namespace lmtrain {

// Resolves all that depends on the prepared data: the vocabulary, the choices, the micro-batch and
// eval.tokens. Logs what it chose, or that the recipe chooses nothing since optimizer.lr is given.
// `config` must be resolved by resolve_runtime.
//
// With train.time it measures steps of random weights at every length, for a few percent of that
// time. It sets train.tokens to what the rest of the time can train, less the evaluations. Throws
// the errors of Tokenizer::load and resolve_vocab_size (training/resolve.h), and:
//   Error(kConfig)  model.size does not fit the given parts of the shape
//   Error(kMemory)  with train.time: one row does not fit
//   StopRequested   with train.time: a signal came
void resolve_after_data(Config& config, const PreparedData& data, int num_processes,
                        const Processes& processes = only_process());

}  // namespace lmtrain
