// Averages models of one architecture and one tokenizer, such as the checkpoints of a run's tail
// (LAWA; Sanyal et al., 2306.03241): each weight of the result is the mean of that weight over all
// models. The mean is summed in double precision and rounded once to fp32.
//
// The result is a folder of transformers, as export_hf writes one: written under a temporary name,
// and published at `to` when it is whole.
#pragma once

#include <filesystem>
#include <vector>

#include "checkpoint/export_model.h"

namespace lmtrain {

// Averages the models at `targets`, each a run folder (its best checkpoint, as locate_model says),
// a checkpoint or a HF folder. config.json and the tokenizer come from the first model. A warning
// names each later model that has no tokenizer to compare. `to` must be missing or an empty folder.
// Memory: 12 bytes a weight, and the pages of the file that it reads.
//
// After an error `to` is as it was. Throws the errors of locate_model and located_model_config
// (checkpoint/model_location.h), Tokenizer::load and load_weights (model/hf_folder.h), Error(kIo),
// and:
//   Error(kUsage)  fewer than two models, a model given twice, an architecture or tokenizer that
//                  differs from the first model's, or `to` is taken or is named like a checkpoint
//                  of a run
//   StopRequested  on a signal
ModelExport average_models(const std::vector<std::filesystem::path>& targets,
                           const std::filesystem::path& to);

}  // namespace lmtrain
