// `init_from` names a folder: its config.json gives the model's defaults, and the run begins with
// its weights. The tokenizer belongs to the weights, so a run is refused when the folder has none,
// unless the config gives one or sets tokenizer.allow_mismatch.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/parse.h"
#include "config/read_settings.h"

namespace lmtrain {

struct InitFromFolder {
  std::string folder;  // with its ${VAR} replaced; for a run, the checkpoint that was taken
  std::string config_path;
  std::optional<ModelConfig> model;  // none: init_from is not given, or its config cannot be read
  // This is the path of its tokenizer, if the folder has one (tokenizer_in()).
  std::optional<std::string> tokenizer_model;
  bool is_missing = false;            // the path typed does not exist, as `problems` says too
  std::vector<std::string> problems;  // messages
};

// Returns the tokenizer in a model's folder: tokenizer.model or, where that is missing,
// tokenizer.json; nothing where it has neither.
std::optional<std::filesystem::path> tokenizer_in(const std::filesystem::path& folder);
// Opens the folder that "init_from" in the config's JSON names, and reads its config.json. Returns
// an empty result when the key is missing or malformed; the reader of settings reports the latter.
// For a run folder `checkpoint_of_run` chooses the checkpoint, and what it throws is passed on.
InitFromFolder open_init_from(const JsonNode& root, const CheckpointOfRun& checkpoint_of_run);
// Adds a problem to `reader` for each key of `model` that was given and differs from the folder's,
// and one for weights without their tokenizer. Requires folder.model.
void check_init_from(const Config& config, const InitFromFolder& folder, SettingReader& reader);
// Returns whether the key tokenizer.model is there, even if it is null.
bool mentions_tokenizer_model(const JsonNode& root);

}  // namespace lmtrain
