// What a run that begins from given weights (`init_from`) must agree with them about: the
// tokenizer, whose ids the embedding was trained for, and the length of rows. The values of `model`
// are held against the folder's config.json when the config is read (config/init_from.h).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/config.h"
#include "model/parameters.h"

namespace lmtrain {

// The newest valid checkpoint of a run, for `init_from`; a note says which. Error(kUsage) when the
// run has none, Error(kCheckpoint) when all are damaged.
std::filesystem::path newest_checkpoint_of(const std::filesystem::path& run);

// Call it when a run begins, before its data is prepared. `config` has absolute paths. Returns
// warnings. Error(kConfig) for a tokenizer that does not belong to the weights, unless
// tokenizer.allow_mismatch is true; Error(kData) for a tokenizer that cannot be read.
std::vector<std::string> check_given_model(const Config& config);

// Fills `parameters` from a HF folder or a checkpoint, whose manifest is verified first.
void load_initial_weights(const std::string& folder, Parameters& parameters);

}  // namespace lmtrain
