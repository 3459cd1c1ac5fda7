// The tokenizer that a config gives in tokenizer.model.
#pragma once

#include <filesystem>
#include <optional>

#include "config/config.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {

// Returns the absolute path of tokenizer.model, which the config must have. Throws Error(kUsage)
// where nothing is there.
std::filesystem::path given_tokenizer_path(const Config& config);

// Gives tokenizer.add_bos and tokenizer.add_eos values where they are auto. Where a given tokenizer
// decides, logs the values with the reasons (not for token files), and returns that tokenizer,
// which it has opened; else returns nothing. Throws like given_tokenizer_path() and
// Tokenizer::load.
std::optional<Tokenizer> resolve_document_ends(Config& config);

}  // namespace lmtrain
