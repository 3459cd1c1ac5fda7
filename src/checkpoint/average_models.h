// Averages models of one architecture and one tokenizer, such as the checkpoints of a run's tail
// (LAWA; Sanyal et al., 2306.03241): each weight of the result is the mean of that weight over all
// models. The mean is summed in double precision and rounded once to fp32.
//
// The result is a folder of transformers, like the result of export_hf. It is written under a
// temporary name and published at `to` when it is whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "checkpoint/export_model.h"

namespace lmtrain {

// Averages the models at `targets`, each a run folder (its newest valid checkpoint), a checkpoint
// or a HF folder. config.json and the tokenizer come from the first model. Where only one of two
// models has a tokenizer, a warning says that they could not be compared. `to` must be missing or
// an empty folder. Memory: 12 bytes a weight, and 4 of the file that is read.
//
// Throws Error(kUsage) for fewer than two models, a model given twice, and a model whose
// architecture or tokenizer differs from the first model's; the errors of locate_model
// (checkpoint/model_location.h) and load_weights (model/hf_folder.h); Error(kIo); StopRequested on
// a signal. Nothing is at `to` after an error.
ModelExport average_models(const std::vector<std::filesystem::path>& targets,
                           const std::filesystem::path& to);

}  // namespace lmtrain
