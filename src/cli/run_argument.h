// Finds the run that a person names on the command line.
#pragma once

#include <string>

#include "checkpoint/run_folder.h"

namespace lmtrain {

// Returns the run in the folder `typed`, by its absolute path. Throws Error(kUsage) when there is
// none, with the command that was probably meant: for something inside a run `command` with that
// run, for a model the one that takes its weights.
RunFolder run_of_argument(const std::string& typed, const std::string& command);

}  // namespace lmtrain
