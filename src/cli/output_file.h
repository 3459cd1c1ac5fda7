// Checks the place of a file that a command writes where an option says.
#pragma once

#include <filesystem>
#include <string_view>

namespace lmtrain {

struct OutputKind {
  std::string_view option;     // after which the path was typed, such as "--to"
  std::string_view what;       // for messages: "report of lmtrain"
  std::string_view beginning;  // of every such file
  std::string_view name;       // one for a file in a folder that was typed
};

// Throws Error(kUsage) unless nothing is at `path` in a folder that is there, or a file that may be
// replaced: one of this kind, or an empty one.
void require_place_of(const OutputKind& kind, const std::filesystem::path& path);

}  // namespace lmtrain
