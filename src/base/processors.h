// `threads: "auto"` stands for the number of processors that this process may use.
//
// A machine may have many more. Threads beyond what a container is given do not run faster, they
// wait for each other.
#pragma once

#include <filesystem>
#include <string>

namespace lmtrain {

// Returns the mask of the processors that this process may run on: bit i % 8 of byte i / 8 stands
// for processor i. It is empty where the system refuses to tell. Throws nothing but std::bad_alloc.
std::string processor_mask();

// Returns the number of processors in the affinity mask, or the CPU time that the control groups
// around the process allow (docker's --cpus sets it), in processors, whichever is less; at least 1.
// The CPU time is rounded down: where threads have less than a processor each, the one that has
// used up its share holds up all others. Throws nothing. Files are read below `root`, which is "/"
// except in tests.
int available_processors(const std::filesystem::path& root = "/");

// Returns OMP_NUM_THREADS where that holds a number above 0. Otherwise divides the available
// processors by `sharers`, the number of processes that share them; at least 1.
int default_threads(int sharers = 1);

}  // namespace lmtrain
