// Loads the weights that a run begins from (`init_from`), and checks that the run fits them. It
// checks the tokenizer, for whose ids the embedding was trained, and the length of rows. The values
// of `model` were compared with the folder's config.json before (config/init_from.h).
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
  std::string what;              // for people; empty when both give the same ids
};
// Compares `given` with the folder's tokenizer.model. If that file is missing or no sentencepiece
// model, compares with the folder's tokenizer.json. Returns nothing when neither can be compared.
// Throws Error(kIo) when a file cannot be read.
std::optional<TokenizerDifference> difference_from_weights(const Tokenizer& given,
                                                           const std::filesystem::path& folder);

// Returns the best checkpoint of a run, for `init_from`. locate_model (checkpoint/model_location.h)
// chooses it and names it in a note. Throws the errors of locate_model.
std::filesystem::path best_checkpoint_of(const std::filesystem::path& run);

// Checks tokenizer and length of rows, and returns warnings; without `init_from`, none. Call it
// when a run begins, before its data is prepared. `config` has absolute paths. Throws the errors of
// TensorFiles (formats/tensor_files.h) and located_max_length (checkpoint/model_location.h), and:
//   Error(kConfig)  the tokenizer has more pieces than the embedding has rows
//   Error(kConfig)  the tokenizer does not belong to the weights; not thrown with
//                   tokenizer.allow_mismatch
//   Error(kData)    the tokenizer cannot be read
std::vector<std::string> check_given_model(const Config& config);

// Returns a digest of the weights, which a run keeps (RunIdentity::init_from). For a HF folder it
// covers names, dtypes, shapes and bytes of the tensors. For a checkpoint it covers size and CRC of
// the weights' file, as its manifest has them; without a manifest it is empty.
std::string weights_digest(const std::filesystem::path& folder);
// Fills `parameters` from a HF folder, or from a checkpoint after its files are verified. An empty
// `digest` is not compared. Throws the errors of verify_checkpoint_files (formats/manifest.h),
// TensorFiles (formats/tensor_files.h) and load_weights (model/hf_folder.h), and:
//   Error(kData)  the weights have another digest, or are not finite
void load_initial_weights(const std::string& folder, Parameters& parameters,
                          const std::string& digest);

}  // namespace lmtrain
