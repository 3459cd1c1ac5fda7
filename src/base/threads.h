// The system may refuse a thread: the number of processes and threads of a user (ulimit -u) or of a
// control group (pids.max) is limited, and so may be the address space (ulimit -v) that each needs
// for its stack.
//
// Libraries of others hang or abort where a thread is refused, so a run asks for all its threads
// before it begins.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace lmtrain {

// Starts a thread that calls work(). Throws Error(kMemory) that names the limits in force when it
// is refused.
std::thread start_thread(std::function<void()> work);

// Tests whether `count` more threads can run at once: it starts them, and ends them again. Throws
// Error(kMemory) that names the limits in force and the number of threads that could be started.
// Requires that no other thread of the process starts or ends meanwhile.
void require_threads(int count);

// Returns the limits on threads in force here, for messages: "ulimit -u 4096, pids.max 100". Empty
// when there is none.
std::string thread_limits();

}  // namespace lmtrain
