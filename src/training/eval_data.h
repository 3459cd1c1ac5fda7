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

// Finds the run's data in the cache, or prepares them with `num_threads` threads. Throws the errors
// of read_run_config, require_given_tokenizer and refuse_changed_text (runlog/data_files.h),
// prepare_data, and:
//   Error(kUsage)  the location belongs to no run, or the run has no held-out text
//   Error(kData)   the checkpoint was trained on other data
EvalData eval_data_of(const ModelLocation& location, int num_threads);

// Returns the settings by which the location's run reads its text, so that a command reads other
// text alike. Without a run, returns the defaults; if the run reads token ids, with the default
// format. Throws the errors of read_run_config.
DataConfig text_reading_of(const ModelLocation& location);

}  // namespace lmtrain
