// Checks that the settings of a run allow several processes.
#pragma once

#include "config/config.h"

namespace lmtrain {

// Throws Error(kConfig) when the settings do not allow this number of processes. They always allow
// one process.
void check_processes(const ParallelConfig& config, int num_processes);
// Throws Error(kConfig) when several processes divide the weights (parallel.shard "parameters") and
// another setting forbids this. `config` is resolved.
void check_division(const Config& config, int num_processes);

}  // namespace lmtrain
