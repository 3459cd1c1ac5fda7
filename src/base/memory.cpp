#include "base/memory.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "base/control_group.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// The number behind `key` in a file of "key value" or "key: value kB" lines.
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

// The number a file consists of; "max" is none.
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

bool prefer_huge_pages(uint64_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) return false;
  void* const block = ::malloc(bytes);
  if (block == nullptr) return false;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(block);
  const uintptr_t begin = (address + page - 1) / page * page;
  const uintptr_t end = (address + bytes) / page * page;
  // The advice stays with the addresses, and the heap keeps them (configure_runtime).
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  ::free(block);
  return true;
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

}  // namespace lmtrain
