#include "cli/run_argument.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/files/examine.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;

// Both a run and a model of transformers have a config.json; only a model's names its type there.
bool is_model_folder(const fs::path& folder) {
  const fs::path file = RunFolder(folder).config();
  if (!is_file(file)) return false;
  const auto json = nlohmann::json::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
  return json.is_object() && (json.contains("model_type") || json.contains("architectures"));
}

bool is_run_folder(const fs::path& folder) {
  return RunFolder(folder).holds_run() && !is_checkpoint_folder(folder) && !is_model_folder(folder);
}

// The run that the path lies in: RUN/config.json, RUN/checkpoints/step_00000100, RUN/trials/seed_5.
std::optional<fs::path> run_around(const fs::path& path) {
  fs::path folder = path;
  for (int levels = 0; levels < 3 && folder.has_relative_path(); ++levels) {
    folder = folder.parent_path();
    if (is_run_folder(folder)) return folder;
  }
  return std::nullopt;
}

std::string what_it_is(const fs::path& path) {
  if (!is_there(path)) return "does not exist";
  if (is_checkpoint_folder(path)) return "is a checkpoint";
  if (is_model_folder(path)) return "is a model, not a run";
  return is_folder(path) ? "is not a run folder (no config.json)" : "is not a folder";
}

}  // namespace

RunFolder run_of_argument(const std::string& typed) {
  fs::path path = fs::absolute(typed).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "runs/a/"
  if (is_run_folder(path)) return RunFolder(path);
  std::string cure;
  if (const std::optional<fs::path> run = run_around(path)) {
    cure = str("; it belongs to a run, which goes on with: lmtrain resume ",
               shell_quoted(run->string()));
  } else if (is_checkpoint_folder(path) || is_model_folder(path)) {
    cure = str("; a new run takes its weights with: lmtrain train CONFIG.json --set init_from=",
               shell_quoted(path.string()));
  } else {
    cure = "; a run is started with: lmtrain train CONFIG.json";
    if (is_folder(path)) cure += " --run-dir " + shell_quoted(path.string());
  }
  throw Error(ErrorKind::kUsage, str(path.string(), " ", what_it_is(path), cure));
}

}  // namespace lmtrain
