#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/control_group.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// More than any machine has.
constexpr double kUnlimited = 1e9;

double processors_of_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
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

int available_processors(const fs::path& root) {
  double least = processors_of_affinity();
  for (const ControlGroup& group : control_groups("cpu", root)) {
    least = std::min(least, processors_of_group(group));
  }
  return std::max(1, static_cast<int>(least));
}

}  // namespace lmtrain
