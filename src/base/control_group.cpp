#include "base/control_group.h"

#include <fstream>

namespace lmtrain {

namespace fs = std::filesystem;

std::vector<ControlGroup> control_groups(const std::string& controller, const fs::path& root) {
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
    // In a container the path may be one of the host's: then the root of what is mounted is the
    // group.
    fs::path group = fs::path(line.substr(second + 1)).relative_path();
    for (;; group = group.parent_path()) {
      groups.push_back({mount / group, version});
      if (group.empty()) break;
    }
  }
  return groups;
}

}  // namespace lmtrain
