// Checks what several processes need of the settings of a run.
#pragma once

#include "config/config.h"

namespace lmtrain {

// Throws Error(kConfig) for a number of processes that the settings do not allow. One is always
// allowed.
void check_processes(const ParallelConfig& config, int num_processes);
// Throws Error(kConfig) where several processes divide the optimizer or the weights and another
// setting does not allow that. `config` is resolved.
void check_division(const Config& config, int num_processes);

}  // namespace lmtrain
