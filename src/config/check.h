// Rules across settings, checked once each setting by itself is right. Each broken rule is one line
// that names the keys and, as its origin, the first of them that was given.
#pragma once

#include <string>

#include "config/read_settings.h"

namespace lmtrain {

// Rules of a whole configuration, the model's among them. Problems go into `reader`.
void check_config(const Config& config, SettingReader& reader);
// The rules of the model alone. `prefix` stands before its keys, "model." or empty, in the problems
// that go into `reader`.
void check_model(const ModelConfig& model, const std::string& prefix, SettingReader& reader);

}  // namespace lmtrain
