// Checks the paths that a person types on the command line.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "checkpoint/run_folder.h"
#include "config/config.h"

namespace lmtrain {

// Returns the run that contains the absolute path: RUN/config.json, RUN/checkpoints/step_00000100,
// RUN/trials/seed_5; nothing if it is no part of a run.
std::optional<std::filesystem::path> run_around(const std::filesystem::path& path);

// Returns the run in the folder `typed`, by its absolute path. Throws Error(kUsage) if there is
// none, with the command that the person probably meant: inside a run, `command` with that run; for
// a model, the command that takes its weights. Throws the error of require_config_of_run().
RunFolder run_of_argument(const std::string& typed, const std::string& command);

// Sets config.run_dir to `typed`, the path after --run-dir; empty: not given. Throws Error(kUsage)
// if --set run_dir=... names another folder.
void take_run_dir(Config& config, const std::string& typed);

// Describes a file that a command writes to the path of an option.
struct OutputKind {
  std::string_view option;     // the option with the path, such as "--to"
  std::string_view what;       // for messages: "report of lmtrain"
  std::string_view beginning;  // the text with which every such file begins
  std::string_view name;       // a name to propose, if the path is a folder
};

// Throws Error(kUsage) unless the folder of `path` exists, and `path` is missing, an empty file, or
// a file of this kind, which may be replaced.
void require_place_of(const OutputKind& kind, const std::filesystem::path& path);

}  // namespace lmtrain
