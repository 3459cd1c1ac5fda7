// A process is in control groups (version 1 or 2), by which a system or a container limits how much
// memory and CPU time it may have. control_groups() finds their folders; the callers read the
// limits from the files there (base/memory.cpp, base/processors.cpp, base/threads.cpp).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lmtrain {

struct ControlGroup {
  std::filesystem::path folder;  // holds the files with its limits; it may not exist
  int version;                   // 1 or 2
};

// Returns the groups in which `controller` ("memory", "cpu" or "pids") may limit this process, from
// its own up to the root; the limits of all of them hold at once. Empty where the system names none
// or its files cannot be read; throws nothing. Files are looked for below `root`, which is "/"
// except in tests.
std::vector<ControlGroup> control_groups(const std::string& controller,
                                         const std::filesystem::path& root = "/");

}  // namespace lmtrain
