// Finds the evaluation data of a model location: the held-out text of the run it belongs to.
#pragma once

#include <cstdint>
#include <filesystem>

#include "checkpoint/model_location.h"
#include "config/config.h"
#include "prepare/eval_sets.h"

namespace lmtrain {

struct EvalData {
  std::filesystem::path shard;
  EvalSets sets;       // of the shard's documents
  int64_t tokens = 0;  // token_budget of an evaluation (EvalOptions of eval/evaluate.h)
};

// Prepares the run's data with `num_threads` threads where that is not done yet. Throws
// Error(kUsage) when the location belongs to no run, or to one without held-out text; Error(kData)
// when the checkpoint was trained on other data.
EvalData eval_data_of(const ModelLocation& location, int num_threads);

// Returns the settings by which the location's run reads its text, so that other text is read
// alike: the defaults without a run, and the default format where the run reads token ids.
DataConfig text_reading_of(const ModelLocation& location);

}  // namespace lmtrain
