// One command as several processes: the first does it, the others follow.
#pragma once

#include <functional>

#include "processes/processes.h"

namespace lmtrain {

// Calls lead() where there is one process, and in the first of several that a launcher has started
// (processes/launch.h); the others do what it tells them. Returns the exit code of all. What one
// process throws ends all others.
int in_processes(const std::function<int()>& lead);

// Whether this process is none of several, or the first of them. Error(kUsage) as read_launch().
bool is_first_process();

// Whether in_processes() has thrown as one of several: its threads are left as they were.
bool left_in_failure();

// The processes that in_processes() has connected; outside of it this process alone.
Processes& joined_processes();

}  // namespace lmtrain
