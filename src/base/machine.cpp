#include "base/machine.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

struct ControlGroup {
  fs::path folder;  // holds the files with its limits; it may not exist
  int version;      // 1 or 2
};

// Returns the groups in which `controller` ("memory", "cpu" or "pids") may limit this process, from
// its own up to the root; the limits of all of them hold at once. Empty where the system names none
// or its files cannot be read.
std::vector<ControlGroup> control_groups(const std::string& controller,
                                         const fs::path& root = "/") {
  std::vector<ControlGroup> groups;
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const int version = controllers == ",," ? 2 : 1;
    if (version == 1 && controllers.find("," + controller + ",") == std::string::npos) continue;
    const fs::path mount = root / (version == 2 ? "sys/fs/cgroup" : "sys/fs/cgroup/" + controller);
    // In a container the path may be the host's. Then the root of the mount is the group.
    fs::path group = fs::path(line.substr(second + 1)).relative_path();
    for (;; group = group.parent_path()) {
      groups.push_back({mount / group, version});
      if (group.empty()) break;
    }
  }
  return groups;
}

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

namespace {

// Returns the number after `key` in a file of "key value" or "key: value kB" lines.
std::optional<uint64_t> field(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name, unit;
    uint64_t value = 0;
    if (!(words >> name >> value) || name != key) continue;
    words >> unit;
    return unit == "kB" ? value << 10 : value;
  }
  return std::nullopt;
}

// Returns the number that is the whole content of a file; nothing for "max".
std::optional<uint64_t> number(const fs::path& file) {
  std::ifstream in(file);
  uint64_t value = 0;
  return in >> value ? std::optional(value) : std::nullopt;
}

uint64_t difference(uint64_t whole, uint64_t part) { return whole > part ? whole - part : 0; }

void lower(std::optional<uint64_t>& least, std::optional<uint64_t> value) {
  if (value) least = std::min(least.value_or(*value), *value);
}

struct GroupFiles {
  const char *limit, *usage, *inactive_file;
};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current", "inactive_file"};
constexpr GroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                  "total_inactive_file"};

std::optional<uint64_t> left_in_group(const fs::path& group, const GroupFiles& files) {
  const auto limit = number(group / files.limit);
  const auto usage = number(group / files.usage);
  if (!limit || !usage) return std::nullopt;
  const uint64_t caches = field(group / "memory.stat", files.inactive_file).value_or(0);
  return difference(*limit, difference(*usage, caches));
}

std::optional<uint64_t> left_in_groups(const fs::path& root) {
  std::optional<uint64_t> least;
  for (const ControlGroup& group : control_groups("memory", root)) {
    lower(least, left_in_group(group.folder, group.version == 2 ? kVersion2 : kVersion1));
  }
  return least;
}

}  // namespace

uint64_t resident_bytes() { return field("/proc/self/status", "VmRSS:").value_or(0); }
uint64_t peak_resident_bytes() { return field("/proc/self/status", "VmHWM:").value_or(0); }

void reset_peak_resident() {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;
}

std::optional<uint64_t> available_bytes(const fs::path& root) {
  std::optional<uint64_t> least = field(root / "proc/meminfo", "MemAvailable:");
  lower(least, left_in_groups(root));
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    lower(least,
          difference(limit.rlim_cur, field(root / "proc/self/status", "VmSize:").value_or(0)));
  }
  return least;
}

namespace {

// Returns the limits on threads in force here: "ulimit -u 4096, pids.max 100". Empty when there is
// none.
std::string thread_limits() {
  std::vector<std::string> limits;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    limits.push_back(str("ulimit -u ", limit.rlim_cur));
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    limits.push_back(str("ulimit -v ", limit.rlim_cur >> 10));
  for (const ControlGroup& group : control_groups("pids")) {
    std::ifstream file(group.folder / "pids.max");
    uint64_t most = 0;
    if (file >> most) limits.push_back(str("pids.max ", most));
  }
  return join(limits, ", ");
}

[[noreturn]] void fail_refused(const std::string& what, const std::string& reason) {
  const std::string limits = thread_limits();
  throw Error(
      ErrorKind::kMemory,
      str(what, ": ", reason, limits.empty() ? "" : " (limits: " + limits + ")",
          "; raise the limit, or lower threads (OMP_NUM_THREADS where there is no config)"));
}

// Allocates nothing, so that the heap is as it was afterwards.
void* wait_until_set(void* flag) {
  static_cast<const std::atomic<bool>*>(flag)->wait(false);
  return nullptr;
}

int64_t running_threads() {
  std::ifstream status("/proc/self/status");
  int64_t count = 0;
  for (std::string word; status >> word;) {
    if (word == "Threads:" && status >> count) break;
  }
  return count;
}

// A thread that was joined counts until the kernel has cleared it away.
void wait_for_threads(int64_t count) {
  constexpr int kMostWaits = 2000;
  for (int waits = 0; running_threads() > count && waits < kMostWaits; ++waits)
    std::this_thread::sleep_for(std::chrono::microseconds(500));
}

}  // namespace

std::thread start_thread(std::function<void()> work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    fail_refused("cannot start a thread", error.code().message());
  }
}

void require_threads(int count) {
  const int64_t before = running_threads();
  std::atomic<bool> may_end = false;
  std::vector<pthread_t> threads;
  threads.reserve(static_cast<size_t>(std::max(count, 0)));
  int refusal = 0;
  for (int i = 0; i < count && refusal == 0; ++i) {
    pthread_t thread{};
    refusal = ::pthread_create(&thread, nullptr, wait_until_set, &may_end);
    if (refusal == 0) threads.push_back(thread);
  }
  may_end = true;
  may_end.notify_all();
  for (const pthread_t thread : threads) ::pthread_join(thread, nullptr);
  wait_for_threads(before);
  if (refusal != 0) {
    fail_refused(str("this run needs ", counted(count, "thread"), " beside the first, and ",
                     threads.size(), " can be had"),
                 std::strerror(refusal));
  }
}

}  // namespace lmtrain
