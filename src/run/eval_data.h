// The evaluation data that a model location has: the held-out text of the run it belongs to.
#pragma once

#include <cstdint>
#include <filesystem>

#include "checkpoint/model_location.h"
#include "config/config.h"

namespace lmtrain {

struct EvalData {
  std::filesystem::path shard;
  int64_t tokens = 0;  // what an evaluation takes of it
};

// Prepares the run's data where that is not done yet. Error(kUsage) when the location belongs to no
// run, or to one without held-out text; Error(kData) when the checkpoint was trained on other data.
EvalData eval_data_of(const ModelLocation& location, int num_threads);

// How the location's run reads its text, for other text; the defaults without a run, and the
// default format where the run reads token ids.
DataConfig text_reading_of(const ModelLocation& location);

}  // namespace lmtrain
