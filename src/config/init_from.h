// `init_from`: the folder whose config.json gives the model's defaults, and whose weights the run
// begins with.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/read_settings.h"

namespace lmtrain {

struct InitFromFolder {
  std::string config_path;
  std::optional<ModelConfig> model;  // none: not asked for, or unreadable
  std::optional<std::string> tokenizer_model;
  bool is_missing = false;  // the path typed does not exist
  std::vector<std::string> problems;
};

// Opens what the tree of JSON names; malformed values are left to the reader of settings.
InitFromFolder open_init_from(const JsonNode& root);
// Keys of `model` that were given and differ from the folder's.
void check_init_from(const Config& config, const InitFromFolder& folder, SettingReader& reader);
// Whether tokenizer.model is given, be it null.
bool mentions_tokenizer_model(const JsonNode& root);

}  // namespace lmtrain
