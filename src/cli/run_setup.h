// What train and resume share: from a config and a run folder to a trainer that is ready, and the
// run itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace lmtrain {

// Resolves the config on this machine, prepares the data and builds the trainer.
Trainer make_trainer(Config& config, const RunFolder& run, std::optional<int64_t> checkpoint);

// Trains with the config already written to the run folder; prints the final status on stdout. The
// exit code.
int run_trainer(Trainer& trainer);

// Goes on with the run in `run`; `overrides` as typed after --set become part of its config.
int resume_run(const RunFolder& run, const std::vector<std::string>& overrides);

void write_run_config(const RunFolder& run, const Config& config);

}  // namespace lmtrain
