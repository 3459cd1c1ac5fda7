// Checks that a run fits the weights that it begins from (`init_from`), and loads them. Checked are
// the tokenizer, whose ids the embedding was trained for, and the length of rows; the values of
// `model` are compared with the folder's config.json when the config is read (config/init_from.h).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "tokenizer/tokenizer.h"
#include "model/parameters.h"

namespace lmtrain {

// Says how a tokenizer differs from the one that lies beside weights.
struct TokenizerDifference {
  std::filesystem::path theirs;  // the tokenizer file beside the weights
  std::string what;              // for people; empty when both give the same ids
};
// Compares `given` with tokenizer.model of the folder or, where that is missing or no sentencepiece
// model, with its tokenizer.json. Returns nothing when neither can be compared. Throws Error(kIo)
// when a file cannot be read.
std::optional<TokenizerDifference> difference_from_weights(const Tokenizer& given,
                                                           const std::filesystem::path& folder);

// Returns the best checkpoint of a run, for `init_from`: the one that locate_model
// (checkpoint/model_location.h) takes and names in a note. Throws its errors.
std::filesystem::path best_checkpoint_of(const std::filesystem::path& run);

// Checks tokenizer and length of rows, and returns warnings; without `init_from` there are none.
// Call it when a run begins, before its data is prepared. `config` has absolute paths. Throws
// Error(kConfig) for a tokenizer with more pieces than the embedding has rows, and for one that
// does not belong to the weights, unless tokenizer.allow_mismatch is true; Error(kData) for a
// tokenizer that cannot be read; the errors of TensorFiles (formats/tensor_files.h), which opens
// the weights, and of located_max_length (checkpoint/model_location.h).
std::vector<std::string> check_given_model(const Config& config);

// Returns a digest of the weights, which a run keeps (RunIdentity::init_from). That of a HF folder
// is made from names, dtypes, shapes and bytes of the tensors, that of a checkpoint from its
// manifest alone, without a look at the weights; it is empty where there is no manifest.
std::string weights_digest(const std::filesystem::path& folder);
// Fills `parameters` from a HF folder, or from a checkpoint after its files are verified. Throws
// Error(kData) when the weights do not have `digest`, and when they are not finite; an empty
// digest is not compared. Throws the
// errors of verify_checkpoint_files (formats/manifest.h), TensorFiles (formats/tensor_files.h) and
// load_weights (model/hf_folder.h).
void load_initial_weights(const std::string& folder, Parameters& parameters,
                          const std::string& digest);

}  // namespace lmtrain
