// A limit on the address space of a child that a test has forked.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace lmtrain::testing {

// Lets this process have `more` bytes of addresses beyond those it has, as `ulimit -v` does.
inline bool limit_addresses(uint64_t more) {
  uint64_t pages = 0;
  if (!(std::ifstream("/proc/self/statm") >> pages)) return false;
  const rlim_t most = pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) + more;
  const rlimit limit{most, most};
  return ::setrlimit(RLIMIT_AS, &limit) == 0;
}

}  // namespace lmtrain::testing
