#include "cli/path_arguments.h"

#include <optional>
#include <string>

#include "base/error.h"
#include "base/examine.h"
#include "base/read_file.h"
#include "base/text.h"
#include "checkpoint/run_config.h"

namespace lmtrain {

namespace fs = std::filesystem;

namespace {

std::string what_it_is(const fs::path& path) {
  if (!is_there(path)) return "does not exist";
  if (is_checkpoint_folder(path)) return "is a checkpoint";
  if (is_model_folder(path)) return "is a model, not a run";
  return is_folder(path) ? "is not a run folder (no config.json)" : "is not a folder";
}

}  // namespace

std::optional<fs::path> run_around(const fs::path& path) {
  fs::path folder = path;
  for (int levels = 0; levels < 3 && folder.has_relative_path(); ++levels) {
    folder = folder.parent_path();
    // A user's folder may hold a config.json too; a run that began has events.
    if (is_run_folder(folder) && is_there(RunFolder(folder).events())) return folder;
  }
  return std::nullopt;
}

RunFolder run_of_argument(const std::string& typed, const std::string& command) {
  const fs::path path = without_final_slash(absolute_path(typed));
  if (is_run_folder(path)) return RunFolder(path);
  if (is_folder(path)) require_config_of_run(RunFolder(path));
  std::string cure;
  if (const std::optional<fs::path> run = run_around(path)) {
    cure = str("; it belongs to a run; for that run: lmtrain ", command, " ",
               shell_quoted(run->string()));
  } else if (is_checkpoint_folder(path) || is_model_folder(path)) {
    cure = str("; a new run takes its weights with: lmtrain train CONFIG.json --set init_from=",
               shell_quoted(path.string()));
  } else if (const std::string runs = name_runs_in(path, command); !runs.empty()) {
    cure = runs;
  } else {
    cure = "; a run is started with: lmtrain train CONFIG.json";
    if (is_folder(path)) cure += " --run-dir " + shell_quoted(path.string());
  }
  throw Error(ErrorKind::kUsage, str(path.string(), " ", what_it_is(path), cure));
}

void take_run_dir(Config& config, const std::string& typed) {
  if (typed.empty()) return;
  const bool is_set = config.run_dir && config.origins.origin("run_dir").starts_with("--set");
  if (is_set && absolute_path(*config.run_dir) != absolute_path(typed)) {
    throw Error(ErrorKind::kUsage, str("--run-dir ", typed, " and --set run_dir=", *config.run_dir,
                                       " both name the run folder; give one of them"));
  }
  config.run_dir = typed;
}

void require_place_of(const OutputKind& kind, const fs::path& path) {
  const auto refuse = [&](const std::string& problem) {
    throw Error(ErrorKind::kUsage, str(kind.option, " ", path.string(), ": ", problem));
  };
  const FileInfo info = examine(path);
  if (info.kind == FileKind::kFolder)
    refuse("is a folder; give a file in it: " + shell_quoted((path / kind.name).string()));
  if (info.kind == FileKind::kOther)
    refuse("is " + file_kind_name(path) + "; give the path of a file");
  if (info.kind == FileKind::kFile && info.size > 0 && !file_begins_with(path, kind.beginning))
    refuse(str("is there already and is no ", kind.what, "; give another path, or remove it"));
  const fs::path folder = absolute_path(path).parent_path();
  if (!is_folder(folder)) {
    refuse(is_there(folder) ? folder.string() + " is no folder"
                            : str("there is no folder ", folder.string(),
                                  "; make it with: mkdir -p ", shell_quoted(folder.string())));
  }
}

}  // namespace lmtrain
