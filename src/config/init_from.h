// `init_from`: the folder whose config.json gives the model's defaults, and whose weights the run
// begins with. The tokenizer belongs to the weights: without it nothing is trained on them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/parse.h"
#include "config/read_settings.h"

namespace lmtrain {

struct InitFromFolder {
  std::string folder;  // as given; of a run, the checkpoint that was taken
  std::string config_path;
  std::optional<ModelConfig> model;  // none: not asked for, or unreadable
  std::optional<std::string> tokenizer_model;
  bool is_missing = false;  // the path typed does not exist
  std::vector<std::string> problems;
};

// Opens what the tree of JSON names; malformed values are left to the reader of settings. Of a run
// folder `checkpoint_of_run` says which checkpoint is meant, and its errors are thrown on.
InitFromFolder open_init_from(const JsonNode& root, const CheckpointOfRun& checkpoint_of_run);
// Keys of `model` that were given and differ from the folder's; weights without their tokenizer.
void check_init_from(const Config& config, const InitFromFolder& folder, SettingReader& reader);
// Whether tokenizer.model is given, be it null.
bool mentions_tokenizer_model(const JsonNode& root);

}  // namespace lmtrain
