// These functions return how many processors, how much memory and how many threads the system lets
// this process have. They read Linux's /proc and /sys, and the limits of the process.
//
// A process is in control groups (version 1 or 2), by which a system or a container limits it.
// Processors, memory and threads each have their limits there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>

namespace lmtrain {

// Returns the mask of the processors that this process may run on: bit i % 8 of byte i / 8 stands
// for processor i. It is empty where the system refuses to tell. Throws nothing but std::bad_alloc.
std::string processor_mask();

// Returns how many processors the process can use, at least 1. It is the lesser of two numbers: the
// processors in the affinity mask, and the processors whose CPU time the control groups allow
// (docker's --cpus sets it). The latter is rounded down: a thread that has used up its share would
// hold up all others. `threads: "auto"` stands for this number. Throws nothing. Files are read
// below `root`, which is "/" except in tests.
int available_processors(const std::filesystem::path& root = "/");

// Returns OMP_NUM_THREADS where that is a number above 0. Otherwise divides the available
// processors by `sharers`, the number of processes that share them (not 0); at least 1.
int default_threads(int sharers = 1);

// These two return the resident memory of the process in bytes: now, and its peak since the last
// reset_peak_resident(). They return 0 where Linux does not tell. No function of memory throws.
uint64_t resident_bytes();
uint64_t peak_resident_bytes();
// Gives unused memory of the heap back to the system, and restarts the peak from what is left.
void reset_peak_resident();
// Returns how many more bytes the process may touch before an allocation fails or the kernel ends a
// process. It is the least of three figures: what the machine has available, what the limits of the
// control groups around the process leave, and what RLIMIT_AS leaves. Inactive file caches count as
// free. Returns nothing where no figure is known. `root` is "/" except in tests.
std::optional<uint64_t> available_bytes(const std::filesystem::path& root = "/");

// The system may refuse a thread. It limits the processes and threads of a user (ulimit -u) and of
// a control group (pids.max), and the address space (ulimit -v), in which each thread needs a
// stack. Some libraries hang or abort when a thread is refused, so a run asks for all its threads
// before it begins.

// Starts a thread that calls work(). When the system refuses, throws Error(kMemory) that names the
// limits in force.
std::thread start_thread(std::function<void()> work);

// Tests whether `count` more threads can run at once: it starts them, and ends them again. Throws
// Error(kMemory) that names the limits in force and the number of threads that could be started.
// Requires that no other thread of the process starts or ends meanwhile.
void require_threads(int count);

}  // namespace lmtrain
