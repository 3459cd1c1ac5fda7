// Checks that a run fits the weights that it begins from (`init_from`): the
// tokenizer, whose ids the embedding was trained for, and the length of rows. The values of `model`
// are held against the folder's config.json when the config is read (config/init_from.h).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "corpus/tokenizer/tokenizer.h"
#include "model/parameters.h"

namespace lmtrain {

// In what a tokenizer differs from the one that lies beside weights.
struct TokenizerDifference {
  std::filesystem::path theirs;  // the file of the one beside the weights
  std::string what;              // for people; empty when they give the same ids
};
// Compares with tokenizer.model of the folder or, where that is missing or no sentencepiece model,
// with the vocabulary of its tokenizer.json. Nothing when there is neither. Error(kIo) when a file
// cannot be read.
std::optional<TokenizerDifference> difference_from_weights(const Tokenizer& given,
                                                           const std::filesystem::path& folder);

// The newest valid checkpoint of a run, for `init_from`; a note says which. Error(kUsage) when the
// run has none, Error(kCheckpoint) when all are damaged.
std::filesystem::path newest_checkpoint_of(const std::filesystem::path& run);

// Call it when a run begins, before its data is prepared. `config` has absolute paths. Returns
// warnings. Error(kConfig) for a tokenizer that does not belong to the weights, unless
// tokenizer.allow_mismatch is true; Error(kData) for a tokenizer that cannot be read.
std::vector<std::string> check_given_model(const Config& config);

// A digest of the weights in a HF folder (names, dtypes, shapes and bytes of the tensors) or a
// checkpoint (from its manifest, which must still be verified; empty where it has none). A run
// keeps that of its given weights (RunIdentity::init_from).
std::string weights_digest(const std::filesystem::path& folder);
// Fills `parameters` from a HF folder or a checkpoint, whose manifest is verified first.
// Error(kData) when the weights do not have `digest`; an empty one is not compared.
void load_initial_weights(const std::string& folder, Parameters& parameters,
                          const std::string& digest = {});

}  // namespace lmtrain
