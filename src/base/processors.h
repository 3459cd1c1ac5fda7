// `threads: "auto"` stands for the number of processors that this process may use.
//
// A machine may have more processors than a container may use. Threads beyond that number wait for
// each other.
#pragma once

#include <filesystem>
#include <string>

namespace lmtrain {

// Returns the mask of the processors that this process may run on: bit i % 8 of byte i / 8 stands
// for processor i. It is empty where the system refuses to tell. Throws nothing but std::bad_alloc.
std::string processor_mask();

// Returns the lesser of two numbers, and at least 1: the processors in the affinity mask, and the
// processors whose CPU time the control groups allow (docker's --cpus sets it). The CPU time is
// rounded down: a thread that has used up its share would hold up all others. Throws nothing. Files
// are read below `root`, which is "/" except in tests.
int available_processors(const std::filesystem::path& root = "/");

// Returns OMP_NUM_THREADS where that holds a number above 0. Otherwise divides the available
// processors by `sharers`, the number of processes that share them; at least 1.
int default_threads(int sharers = 1);

}  // namespace lmtrain
