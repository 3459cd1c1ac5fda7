#include "checkpoint/model_location.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/examine.h"
#include "base/terminal/log.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/run_config.h"
#include "config/parse.h"
#include "formats/manifest.h"

namespace lmtrain {
namespace fs = std::filesystem;

ModelLocation locate_model(const fs::path& path) {
  if (const FileKind kind = examine(path).kind; kind != FileKind::kFolder) {
    throw Error(
        ErrorKind::kUsage,
        str(path.string(), kind == FileKind::kMissing ? " does not exist" : " is not a folder",
            "; give a run folder, a checkpoint, or a HF Llama folder"));
  }
  RunFolder run(path);
  if (is_folder(run.checkpoints())) {
    if (run.holds_run()) run = RunFolder(path, read_run_config(run).identity);
    const std::optional<int64_t> step = newest_valid_checkpoint(run, /*skip_training_state=*/true);
    if (!step)
      throw Error(ErrorKind::kUsage, str("the run in ", path.string(), " has no checkpoint yet"));
    return {run.checkpoint(*step), path};
  }
  if (is_checkpoint_folder(path)) {
    verify_checkpoint_files(path, /*skip_training_state=*/true);
    // A checkpoint lies in RUN/checkpoints/step_N, unless it was copied elsewhere.
    const fs::path parent = fs::canonical(path).parent_path().parent_path();
    const bool in_run = RunFolder(parent).holds_run() && is_folder(RunFolder(parent).checkpoints());
    return {path, in_run ? std::optional<fs::path>(parent) : std::nullopt};
  }
  if (!is_there(path / "config.json")) {
    throw Error(ErrorKind::kUsage,
                str(path.string(), " holds no model: there is no config.json in it"));
  }
  return {path, std::nullopt};
}

bool was_removed(const ModelLocation& location) {
  const bool is_gone = location.run && !is_there(location.folder / kManifestFile);
  if (is_gone) {
    log_note(str(location.folder.string(),
                 " was removed while it was read; the newest checkpoint of the run is taken"));
  }
  return is_gone;
}

ModelConfig located_model_config(const ModelLocation& location) {
  const fs::path file = location.folder / "config.json";
  return parse_hf_model_config(read_file(file), file.string());
}

int64_t located_max_length(const ModelLocation& location) {
  constexpr int64_t kLlamaDefault = 2048, kQwen3Default = 32768;
  const fs::path file = location.folder / "config.json";
  const auto json = nlohmann::json::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return kLlamaDefault;
  if (!json.contains("max_position_embeddings"))
    return json.value("model_type", nlohmann::json()) == name_of(ModelArchitecture::kQwen3)
               ? kQwen3Default
               : kLlamaDefault;
  const auto& value = json.at("max_position_embeddings");
  const bool fits =
      value.is_number_integer() && value.get<int64_t>() > 0 && value.get<int64_t>() <= kLongestRows;
  if (!fits) {
    throw Error(ErrorKind::kConfig,
                str(file.string(), ": /max_position_embeddings: ", value.dump(),
                    " is not a length; allowed: an integer from 1 to ", kLongestRows));
  }
  return value.get<int64_t>();
}

}  // namespace lmtrain
