#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "base/control_group.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// More than any machine has.
constexpr double kUnlimited = 1e9;

double processors_of_affinity() {
  int count = 0;
  for (const char byte : processor_mask()) count += std::popcount(static_cast<unsigned char>(byte));
  return count;
}

// "max" or a negative quota is no limit.
double processors_of_group(const ControlGroup& group) {
  double quota = 0, period = 0;  // microseconds
  if (group.version == 2) {
    std::ifstream(group.folder / "cpu.max") >> quota >> period;
  } else {
    std::ifstream(group.folder / "cpu.cfs_quota_us") >> quota;
    std::ifstream(group.folder / "cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : kUnlimited;
}

}  // namespace

// The system refuses a mask that has no room for all processors of the machine
// (sched_getaffinity(2)).
std::string processor_mask() {
  constexpr size_t kFirstBytes = 128, kMostBytes = size_t{1} << 17;
  for (size_t bytes = kFirstBytes; bytes <= kMostBytes; bytes *= 2) {
    std::string mask(bytes, '\0');
    if (::sched_getaffinity(0, bytes, reinterpret_cast<cpu_set_t*>(mask.data())) == 0) return mask;
    if (errno != EINVAL) break;
  }
  return "";
}

int available_processors(const fs::path& root) {
  double least = processors_of_affinity();
  for (const ControlGroup& group : control_groups("cpu", root)) {
    least = std::min(least, processors_of_group(group));
  }
  return std::max(1, static_cast<int>(least));
}

int default_threads(int sharers) {
  if (const char* text = std::getenv("OMP_NUM_THREADS")) {
    const int count = std::atoi(text);
    if (count > 0) return count;
  }
  return std::max(1, available_processors() / sharers);
}

}  // namespace lmtrain
