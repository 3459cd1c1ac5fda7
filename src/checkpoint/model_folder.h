// A model folder of Hugging Face transformers, as export and average read and write one: the
// weights as fp32 masters on the CPU, and the small files beside them.
#pragma once

#include <filesystem>

#include "checkpoint/model_location.h"
#include "formats/safetensors.h"
#include "model/parameters.h"

namespace lmtrain {

// Returns where each tensor of the model lies in the flat buffer, by the location's config.json.
// Throws Error(kConfig) when lmtrain has no such model.
ParameterLayout located_layout(const ModelLocation& location);

// Writes to `folder`, which must be there, what the location has beside its weights:
// config.json with this dtype of the weights, kF32, kBF16 or kF16; generation_config.json and the
// tokenizer's files, as far as the location has them. Files that are there already are replaced;
// all are synced. Throws Error(kConfig) for a config.json that is no JSON; Error(kIo).
void write_files_beside_weights(const ModelLocation& location, const std::filesystem::path& folder,
                                DType dtype);

// Says in a note that `to` has no tokenizer where the location has none.
void note_missing_tokenizer(const ModelLocation& location, const std::filesystem::path& to);

}  // namespace lmtrain
