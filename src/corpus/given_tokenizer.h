// The tokenizer that a config gives, in the place of one that is trained.
#pragma once

#include <filesystem>

#include "config/config.h"

namespace lmtrain {

// Returns the absolute path of tokenizer.model, which the config must have. Throws Error(kUsage)
// where nothing is there.
std::filesystem::path given_tokenizer_path(const Config& config);

}  // namespace lmtrain
