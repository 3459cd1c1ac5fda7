// Finds the evaluation data of a model location: the held-out text of the run it belongs to. Says
// how a run evaluates while it trains.
#pragma once

#include <cstdint>
#include <filesystem>

#include "checkpoint/model_location.h"
#include "config/config.h"
#include "corpus/eval_sets.h"
#include "train/evaluate.h"
#include "train/micro_batch_limits.h"

namespace lmtrain {

struct EvalData {
  std::filesystem::path shard;
  EvalSets sets;       // of the shard's documents
  int64_t tokens = 0;  // token_budget of an evaluation (EvalOptions)
};

// Prepares the run's data with `num_threads` threads where that is not done yet. Throws
// Error(kUsage) when the location belongs to no run, or to one without held-out text; Error(kData)
// when the checkpoint was trained on other data.
EvalData eval_data_of(const ModelLocation& location, int num_threads);

// Returns the settings by which the location's run reads its text, so that other text is read
// alike: the defaults without a run, and the default format where the run reads token ids.
DataConfig text_reading_of(const ModelLocation& location);

// Returns how a run evaluates: windows of sequence.max_length, in batches of as many tokens as a
// micro-batch of that length has. On a CPU they have at most the default of EvalOptions, since
// evaluations there are in fp32, and micro-batches are fitted to the precision of the run. `config`
// is resolved.
EvalOptions evaluation_options(const Config& config, const MicroBatchLimits& micro);

}  // namespace lmtrain
