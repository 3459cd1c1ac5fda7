// Threads that the system may refuse: the number of processes and threads of a user (ulimit -u) or
// of a control group (pids.max) is limited, and so may be the address space (ulimit -v) that each
// needs for its stack.
//
// Libraries of others hang or abort where a thread is refused, so a run asks for all its threads
// before it begins.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace lmtrain {

// A new thread that calls work(). Error(kMemory) naming the limits in force when it is refused.
std::thread start_thread(std::function<void()> work);

// Whether `count` more threads can be had at once: starts them, and ends them again. Error(kMemory)
// as above, with how many could be had. No other thread may be starting or ending.
void require_threads(int count);

// The limits on threads here, for messages: "ulimit -u 4096, pids.max 100". Empty when nothing
// does.
std::string thread_limits();

}  // namespace lmtrain
