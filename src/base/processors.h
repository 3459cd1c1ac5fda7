// The processors that this process may use: what `threads: "auto"` stands for.
//
// A machine may have many more. Threads beyond what a container is given do not run faster, they
// wait for each other.
#pragma once

#include <filesystem>

namespace lmtrain {

// Those of its affinity mask, but no more than the CPU time that control groups around it allow
// (as docker's --cpus sets it), which is rounded down: of threads that share less than a processor
// each, one that has used its share holds up all. At least 1. `root` is "/" but in tests.
int available_processors(const std::filesystem::path& root = "/");

}  // namespace lmtrain
