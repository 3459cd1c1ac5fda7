// From what a person names to the run that is meant.
#pragma once

#include <string>

#include "checkpoint/run_folder.h"

namespace lmtrain {

// The run in the folder `typed`, by its absolute path. Error(kUsage) when there is none, with the
// command that was probably meant: of something inside a run the one that resumes it, of a model
// the one that takes its weights.
RunFolder run_of_argument(const std::string& typed);

}  // namespace lmtrain
