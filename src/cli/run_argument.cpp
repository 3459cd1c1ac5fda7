#include "cli/run_argument.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/absolute_path.h"
#include "base/files/examine.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/run_config.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

bool is_run_folder(const fs::path& folder) {
  return RunFolder(folder).holds_run() && !is_checkpoint_folder(folder) && !is_model_folder(folder);
}

// The run that the path lies in: RUN/config.json, RUN/checkpoints/step_00000100, RUN/trials/seed_5.
std::optional<fs::path> run_around(const fs::path& path) {
  fs::path folder = path;
  for (int levels = 0; levels < 3 && folder.has_relative_path(); ++levels) {
    folder = folder.parent_path();
    // A user's folder may hold a config.json too; a run that began has events.
    if (is_run_folder(folder) && is_there(RunFolder(folder).events())) return folder;
  }
  return std::nullopt;
}

// The folders in `folder` that hold runs, as far as the first thousand names tell.
std::vector<fs::path> runs_in(const fs::path& folder) {
  constexpr size_t kMostNames = 1000;
  std::vector<std::string> names = list_folder(folder);
  names.resize(std::min(names.size(), kMostNames));
  std::vector<fs::path> runs;
  for (const std::string& name : names)
    if (is_run_folder(folder / name)) runs.push_back(folder / name);
  return runs;
}

// "these runs are in it: lmtrain resume runs/a, ..."
std::string name_runs(const std::vector<fs::path>& runs, const std::string& command) {
  constexpr size_t kMostShown = 5;
  std::vector<std::string> commands;
  for (size_t i = 0; i < std::min(runs.size(), kMostShown); ++i)
    commands.push_back(str("lmtrain ", command, " ", shell_quoted(runs[i].string())));
  const std::string more =
      runs.size() > kMostShown ? str(", and ", runs.size() - kMostShown, " more") : "";
  return str("; ", counted(static_cast<int64_t>(runs.size()), "run"),
             " in it: ", join(commands, ", "), more);
}

std::string what_it_is(const fs::path& path) {
  if (!is_there(path)) return "does not exist";
  if (is_checkpoint_folder(path)) return "is a checkpoint";
  if (is_model_folder(path)) return "is a model, not a run";
  return is_folder(path) ? "is not a run folder (no config.json)" : "is not a folder";
}

}  // namespace

RunFolder run_of_argument(const std::string& typed, const std::string& command) {
  fs::path path = absolute_path(typed);
  if (!path.has_filename()) path = path.parent_path();  // "runs/a/"
  if (is_run_folder(path)) return RunFolder(path);
  if (is_folder(path)) require_config_of_run(RunFolder(path));
  std::string cure;
  if (const std::optional<fs::path> run = run_around(path)) {
    cure = str("; it belongs to a run; for that run: lmtrain ", command, " ",
               shell_quoted(run->string()));
  } else if (is_checkpoint_folder(path) || is_model_folder(path)) {
    cure = str("; a new run takes its weights with: lmtrain train CONFIG.json --set init_from=",
               shell_quoted(path.string()));
  } else if (const std::vector<fs::path> runs =
                 is_folder(path) ? runs_in(path) : std::vector<fs::path>();
             !runs.empty()) {
    cure = name_runs(runs, command);
  } else {
    cure = "; a run is started with: lmtrain train CONFIG.json";
    if (is_folder(path)) cure += " --run-dir " + shell_quoted(path.string());
  }
  throw Error(ErrorKind::kUsage, str(path.string(), " ", what_it_is(path), cure));
}

}  // namespace lmtrain
