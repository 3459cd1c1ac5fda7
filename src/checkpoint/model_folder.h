// Reads the layout of a model folder of Hugging Face transformers, and copies the small files
// beside its weights, for export and average.
#pragma once

#include <filesystem>

#include "checkpoint/model_location.h"
#include "formats/safetensors.h"
#include "model/parameters.h"

namespace lmtrain {

// Returns the layout of the model, by the location's config.json. Throws the errors of
// located_model_config.
ParameterLayout located_layout(const ModelLocation& location);

// Copies the files beside the weights into the existing `folder`, and syncs them: config.json with
// `dtype` as its dtype (kF32, kBF16 or kF16) and, if the location has them, generation_config.json
// and the tokenizer's files. Replaces files that are there. Throws the errors of
// located_model_config, and Error(kIo).
void write_files_beside_weights(const ModelLocation& location, const std::filesystem::path& folder,
                                DType dtype);

// Logs a note that `to` has no tokenizer, if the location has none.
void note_missing_tokenizer(const ModelLocation& location, const std::filesystem::path& to);

}  // namespace lmtrain
