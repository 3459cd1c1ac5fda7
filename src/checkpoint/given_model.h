// Loads the weights that a run begins from (`init_from`), and checks that the run's tokenizer and
// length of rows fit them. config/init_from.h compares the settings of `model` with the folder's
// config.json.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "model/parameters.h"
#include "tokenizer/tokenizer.h"

namespace lmtrain {

// Says how a tokenizer differs from the one that lies beside weights.
struct TokenizerDifference {
  std::filesystem::path theirs;  // the tokenizer file beside the weights
  std::string what;              // for people; empty: both give the same ids
};
// Compares `given` with the folder's tokenizer.model or, if that is missing or no sentencepiece
// model, with its tokenizer.json. Returns nothing if it can compare neither. Throws Error(kIo) if a
// file cannot be read.
std::optional<TokenizerDifference> difference_from_weights(const Tokenizer& given,
                                                           const std::filesystem::path& folder);

// Returns the folder of the checkpoint that locate_model (checkpoint/model_location.h) chooses in a
// run, for `init_from`. Logs a note. Throws the errors of locate_model.
std::filesystem::path best_checkpoint_of(const std::filesystem::path& run);

// Checks tokenizer and length of rows against `init_from`, and returns warnings; without
// `init_from`, none. Call it when a run begins, before its data are prepared. `config` has absolute
// paths. Throws the errors of TensorFiles (formats/tensor_files.h) and located_max_length
// (checkpoint/model_location.h), and:
//   Error(kConfig)  the tokenizer has more tokens than the embedding has rows
//   Error(kConfig)  the tokenizer does not belong to the weights; not thrown with
//                   tokenizer.allow_mismatch
//   Error(kData)    the tokenizer cannot be read
std::vector<std::string> check_given_model(const Config& config);

// Returns a digest of the weights, for RunIdentity::init_from: of names, dtypes, shapes and bytes
// of the tensors of a HF folder; of size and CRC of a checkpoint's model.safetensors in its
// manifest. Empty if the manifest is missing or does not list that file.
std::string weights_digest(const std::filesystem::path& folder);
// Verifies the files of a checkpoint, and fills `parameters` from it, or from a HF folder. Unless
// `digest` is empty, the weights must have it. Throws the errors of verify_checkpoint_files
// (formats/manifest.h), TensorFiles (formats/tensor_files.h) and load_weights (model/hf_folder.h),
// and:
//   Error(kData)  the weights have another digest, or are not finite
void load_initial_weights(const std::string& folder, Parameters& parameters,
                          const std::string& digest);

}  // namespace lmtrain
