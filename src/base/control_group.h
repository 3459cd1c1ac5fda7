// The control groups (version 1 or 2) that this process is in. A system or a container limits by
// them how much memory and CPU time a process may have. The callers read the limits themselves from
// files in each group's folder (base/memory.cpp, base/processors.cpp).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lmtrain {

struct ControlGroup {
  std::filesystem::path folder;  // holds the files with its limits; it may not exist
  int version;                   // 1 or 2
};

// The groups in which `controller` ("memory", "cpu") may limit this process, from its own up to the
// root; the limits of all of them hold at once. Empty where the system names none or its files
// cannot be read; throws nothing. Files are looked for below `root`, which is "/" except in tests.
std::vector<ControlGroup> control_groups(const std::string& controller,
                                         const std::filesystem::path& root = "/");

}  // namespace lmtrain
