// Gives the settings that a config leaves to lmtrain their values, once the data are prepared: the
// recipe (config/recipe.h), model.size, and the tokens that train.time stands for.
#pragma once

#include "config/config.h"
#include "distributed/processes.h"
#include "prepare/prepare.h"

namespace lmtrain {

// Makes every choice in `config`, and logs what was chosen. `config` must be resolved by
// resolve_runtime and resolve_vocab_size; batch.micro_tokens is left open where the batch was
// chosen. Where optimizer.lr is given it says so, since nothing of the recipe is then chosen.
//
// With train.time it makes a model with random weights, measures steps of every length for a few
// percent of that time, and sets train.tokens to what the rest can train, evaluations counted.
// Throws Error(kConfig) for a model.size whose given parts do not fit, Error(kMemory) where one row
// does not fit, and StopRequested on a signal.
void resolve_choices(Config& config, const PreparedData& data, int num_processes,
                     const Processes& processes = only_process());

}  // namespace lmtrain
