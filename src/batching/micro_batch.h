// Decides how many rows go through the model at once: the number that batch.micro_tokens allows, or
// fewer after memory ran out. The lowered numbers are part of the training state.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "config/config.h"

namespace lmtrain {

struct MicroBatchLimits {
  int64_t micro_tokens = 0;         // batch.micro_tokens when rows were lowered
  std::map<int64_t, int64_t> rows;  // lowered rows by length; other lengths are absent
  bool operator==(const MicroBatchLimits&) const = default;
};

// Tells how the rows of a length were reduced, for the log.
struct MicroBatchReduction {
  int64_t length = 0;
  int64_t rows_before = 0, rows = 0;
  std::string reason;
};
// Returns the rows of a micro-batch of this length, at least 1. If `fit` has this length, its rows
// are returned. Otherwise they are the lower of batch.micro_tokens and batch.tokens, divided by the
// length. `config` is resolved. fit.micro_tokens is not read.
int64_t micro_rows(const Config& config, const MicroBatchLimits& fit, int64_t length);

}  // namespace lmtrain
