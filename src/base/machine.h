// These functions tell what the system lets this process have: processors, memory and threads. They
// read it from Linux's files under /proc and /sys, and from the limits of the process.
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
#include <vector>

namespace lmtrain {

// Returns the mask of the processors that this process may run on: bit i % 8 of byte i / 8 stands
// for processor i. It is empty where the system refuses to tell. Throws nothing but std::bad_alloc.
std::string processor_mask();

// Returns the lesser of two numbers, and at least 1: the processors in the affinity mask, and the
// processors whose CPU time the control groups allow (docker's --cpus sets it). The CPU time is
// rounded down: a thread that has used up its share would hold up all others. `threads: "auto"`
// stands for this number. Throws nothing. Files are read below `root`, which is "/" except in
// tests.
int available_processors(const std::filesystem::path& root = "/");

// Returns OMP_NUM_THREADS where that holds a number above 0. Otherwise divides the available
// processors by `sharers`, the number of processes that share them; at least 1.
int default_threads(int sharers = 1);

// These two return the resident memory of the process in bytes: now, and its peak since the last
// reset_peak_resident(). They return 0 where Linux does not tell. No function of memory throws.
uint64_t resident_bytes();
uint64_t peak_resident_bytes();
// Gives unused memory of the heap back to the system. The peak then begins anew.
void reset_peak_resident();
// Asks the system for huge pages under the next `bytes` that the heap hands out, so that the
// processor has fewer addresses to translate. Call it after configure_runtime() (device/device.h):
// before that, malloc gives a large block back to the system, and the request is lost with it. It
// occupies no memory, but it needs that many bytes of addresses. Returns false, having asked for
// nothing, where addresses are limited (RLIMIT_AS) or where malloc refuses a block so large. True
// does not promise that the system gives huge pages.
bool prefer_huge_pages(uint64_t bytes);

// Returns how many more bytes the process may touch before an allocation fails or the kernel ends a
// process. It is the least of three figures: the memory that the machine has available; what the
// memory limit of each control group around the process leaves, where inactive file caches count as
// free; and what RLIMIT_AS leaves. Returns nothing where none of them is known. `root` is "/"
// except in tests.
std::optional<uint64_t> available_bytes(const std::filesystem::path& root = "/");

// The system may refuse a thread: the number of processes and threads of a user (ulimit -u) or of a
// control group (pids.max) is limited, and so may be the address space (ulimit -v) that each needs
// for its stack. Libraries of others hang or abort where a thread is refused, so a run asks for all
// its threads before it begins.

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
