// These functions check rules across settings, after each setting was read and checked by itself. A
// rule about a setting that was bad is left out. Each broken rule becomes one problem: a line that
// names the keys and, as its origin, the first of them that was given.
#pragma once

#include <string>

#include "config/read_settings.h"

namespace lmtrain {

// Checks a whole configuration, the model included, with all defaults filled in. `reader` must be
// the one that read it; problems are added to it.
void check_config(const Config& config, SettingReader& reader);
// Checks the model alone. `prefix` stands before its keys in the table and in the problems:
// "model.", or empty for transformers' config.json.
void check_model(const ModelConfig& model, const std::string& prefix, SettingReader& reader);
// Checks that `architectures` of `model_node`, the object that the model was read from (null:
// none), is the class of model.model_type. It is known but is no setting, so only the text has its
// value.
void check_architectures(const JsonNode* model_node, const ModelConfig& model,
                         const std::string& prefix, SettingReader& reader);
// Checks in the same way that `attention_bias` says what model.model_type computes. In
// transformers' config.json of a qwen2, whose class has no such key, it may be false too.
void check_attention_bias(const JsonNode* model_node, const ModelConfig& model,
                          const std::string& prefix, SettingReader& reader);

}  // namespace lmtrain
