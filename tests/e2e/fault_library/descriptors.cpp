#include "e2e/fault_library/descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <mutex>

#include "e2e/fault_library/faults.h"

namespace lmtrain::faults {
namespace {

constexpr int kMost = 4096;

bool is_in_table(int fd) { return fd >= 0 && fd < kMost; }

std::array<std::string, kMost>& table() {
  static auto* one = new std::array<std::string, kMost>;
  return *one;
}

}  // namespace

std::string absolute(const std::string& path) {
  if (path.empty() || path[0] == '/') return path;
  std::array<char, 4096> folder{};
  return ::getcwd(folder.data(), folder.size()) == nullptr
             ? path
             : std::string(folder.data()) + "/" + path;
}

std::string path_at(int folder, const char* name) {
  if (name[0] == '/' || folder == AT_FDCWD) return absolute(name);
  const std::string base = path_of(folder);
  return base.empty() || name[0] == '\0' ? base : base + "/" + name;
}

std::string path_of(int fd) {
  if (!is_in_table(fd) || Own::is_active()) return {};
  const std::lock_guard hold(lock());
  return table()[static_cast<size_t>(fd)];
}

int note_open(int fd, const std::string& path) {
  if (is_in_table(fd)) {
    const std::lock_guard hold(lock());
    const bool is_noted = !Own::is_active() && is_watched(path);
    table()[static_cast<size_t>(fd)] = is_noted ? path : std::string();
  }
  return fd;
}

void note_closed(int fd) { note_open(fd, ""); }

}  // namespace lmtrain::faults
