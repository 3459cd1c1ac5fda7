// How many rows go through the model at once: as many as batch.micro_tokens says, or fewer where
// memory does not hold them. The lowered numbers are part of the training state.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "config/config.h"

namespace lmtrain {

struct MicroBatchLimits {
  int64_t micro_tokens = 0;         // batch.micro_tokens when rows were lowered
  std::map<int64_t, int64_t> rows;  // by length; only where they were lowered
  bool operator==(const MicroBatchLimits&) const = default;
};

// Tells how the rows of a length were reduced, for the log.
struct MicroBatchReduction {
  int64_t length = 0;
  int64_t rows_before = 0, rows = 0;
  std::string reason;
};
// Returns the rows of a micro-batch of this length, at least 1. They come from `fit` where it has
// this length (fit.micro_tokens is not read), else from batch.micro_tokens.
int64_t micro_rows(const Config& config, const MicroBatchLimits& fit, int64_t length);

}  // namespace lmtrain
