// The part of the training state that micro_batch_limits.h decides. It needs no model, so that the
// state can be read without libtorch.
#pragma once

#include <cstdint>
#include <map>

namespace lmtrain {

struct MicroBatchLimits {
  int64_t micro_tokens = 0;         // batch.micro_tokens when rows were lowered
  std::map<int64_t, int64_t> rows;  // by length; only where they were lowered
  bool operator==(const MicroBatchLimits&) const = default;
};

}  // namespace lmtrain
