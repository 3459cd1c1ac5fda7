// These functions check rules that involve several settings, after a SettingReader has read and
// checked each setting by itself. They skip a rule about a setting that had a problem. Each broken
// rule adds one problem to the reader: a line that names the keys, at the origin of the first key
// that was given.
#pragma once

#include <string>

#include "config/read_settings.h"

namespace lmtrain {

// Checks a whole configuration, the model included, with all defaults filled in. `reader` is the
// SettingReader that read it.
void check_config(const Config& config, SettingReader& reader);
// Checks the model alone. `prefix` stands before its keys in the table and in problems: "model.",
// or "" for transformers' config.json.
void check_model(const ModelConfig& model, const std::string& prefix, SettingReader& reader);
// Checks that `architectures` names the class of model.model_type. That key is no setting, so the
// value comes from `model_node`, the JSON object that the model was read from; null: no object.
void check_architectures(const JsonNode* model_node, const ModelConfig& model,
                         const std::string& prefix, SettingReader& reader);
// Checks in the same way that `attention_bias` is what model.model_type computes: true for qwen2,
// else false. In transformers' config.json of a qwen2, whose class ignores the key, any value
// passes.
void check_attention_bias(const JsonNode* model_node, const ModelConfig& model,
                          const std::string& prefix, SettingReader& reader);

}  // namespace lmtrain
