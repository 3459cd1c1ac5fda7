// The control groups (version 1 or 2) that this process is in, by which a system or a container
// limits what it may have.
//
// Which files say so is a matter of who asks: base/memory.h, base/processors.h.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lmtrain {

struct ControlGroup {
  std::filesystem::path folder;  // of the files that describe it
  int version;
};

// Those that `controller` ("memory", "cpu") may limit, from the process's own up to the root: the
// limits of all hold. Under `root`, which is "/" but in tests.
std::vector<ControlGroup> control_groups(const std::string& controller,
                                         const std::filesystem::path& root = "/");

}  // namespace lmtrain
