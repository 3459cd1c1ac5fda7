// Finds the run that a person names on the command line.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "checkpoint/run_folder.h"

namespace lmtrain {

// Returns the run in the folder `typed`, by its absolute path. Throws Error(kUsage) when there is
// none, with the command that was probably meant: for something inside a run `command` with that
// run, for a model the one that takes its weights.
RunFolder run_of_argument(const std::string& typed, const std::string& command);

// Checks the place of a file that a command writes where an option says.
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
