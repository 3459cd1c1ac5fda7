// `init_from` names a folder: its config.json gives the model's defaults, and the run begins with
// its weights. Weights need their own tokenizer. A run is refused when the folder has no tokenizer,
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
  // The path of its tokenizer; none: tokenizer_in() finds none.
  std::optional<std::string> tokenizer_model;
  bool is_missing = false;            // the path does not exist; `problems` says so too
  std::vector<std::string> problems;  // messages
};

// Returns the path of tokenizer.model in a model's folder, else of tokenizer.json, else nothing.
std::optional<std::filesystem::path> tokenizer_in(const std::filesystem::path& folder);
// Reads config.json in the folder that the key "init_from" of `root` names. Returns an empty result
// for a missing key, and for a malformed one, which SettingReader reports. For a run folder
// `checkpoint_of_run` chooses the checkpoint. Errors go into `problems`; these are thrown: what
// `checkpoint_of_run` throws, and Error(kIo) where the system does not say what is there.
InitFromFolder open_init_from(const JsonNode& root, const CheckpointOfRun& checkpoint_of_run);
// Adds a problem to `reader` for each given key of `model` whose value differs from the folder's,
// and one where the weights would get another tokenizer. Requires folder.model.
void check_init_from(const Config& config, const InitFromFolder& folder, SettingReader& reader);
// Returns whether the config has the key tokenizer.model, even as null.
bool mentions_tokenizer_model(const JsonNode& root);

}  // namespace lmtrain
