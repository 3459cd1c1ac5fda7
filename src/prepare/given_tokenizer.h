// The tokenizer that a config gives, in the place of one that is trained.
#pragma once

#include <filesystem>
#include <optional>

#include "config/config.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {

// Returns the absolute path of tokenizer.model, which the config must have. Throws Error(kUsage)
// where nothing is there.
std::filesystem::path given_tokenizer_path(const Config& config);

// Gives tokenizer.add_bos and tokenizer.add_eos values where they are auto, and logs which and why
// where a tokenizer is given. `eval` and `generate` of a folder do the same by its tokenizer
// (LoadedModel). Returns the tokenizer where it had to be opened for that. Throws like
// given_tokenizer_path() and Tokenizer::load.
std::optional<Tokenizer> resolve_document_ends(Config& config);

}  // namespace lmtrain
