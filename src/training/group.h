// Lets several processes do one command: the first does it, the others follow.
#pragma once

#include <functional>

#include "distributed/processes.h"

namespace lmtrain {

// Calls lead() where there is one process, and in the first of several that a launcher has started
// (distributed/launch.h); the others do what it tells them. Returns the exit code of all. An
// exception in one process passes through there, and ends all others. Throws the errors of
// read_launch() and connect_processes().
int in_processes(const std::function<int()>& lead);

// Returns whether this process is alone, or the first of several. Throws Error(kUsage) as
// read_launch() does.
bool is_first_process();

// Returns whether in_processes() has thrown as one of several. Its threads may still run or hang
// then, so the program must end without destructors (std::_Exit).
bool left_in_failure();

// Returns the processes that in_processes() has connected; outside of it this process alone.
Processes& joined_processes();

}  // namespace lmtrain
