// The processors that this process may use: what `threads: "auto"` stands for.
//
// A machine may have many more. Threads beyond what a container is given do not run faster, they
// wait for each other.
#pragma once

#include <filesystem>

namespace lmtrain {

// The number of processors in the affinity mask, or the CPU time that the control groups around the
// process allow (docker's --cpus sets it), in processors, whichever is less; at least 1. The CPU
// time is rounded down: where threads have less than a processor each, the one that has used up its
// share holds up all others. Throws nothing. Files are read below `root`, which is "/" except in
// tests.
int available_processors(const std::filesystem::path& root = "/");

}  // namespace lmtrain
