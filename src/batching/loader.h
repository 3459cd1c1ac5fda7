// Batches in order from a given index, built ahead by one thread. State: one index.
#pragma once

#include <cstdint>
#include <memory>

#include "batching/batch.h"
#include "batching/batch_order.h"

namespace lmtrain {

class Loader {
 public:
  // Batches [first, end), end < 0: without end; keeps up to `depth` of them ahead, a `share` of
  // each. The order must outlive the loader.
  Loader(const BatchOrder& order, int64_t first, int64_t end = -1, int64_t depth = 4,
         const BatchShare& share = {});
  // Stops the thread; waits at most for the batch it is building.
  ~Loader();
  // Blocks until it is there; what went wrong in the thread is thrown here, after the batches
  // before it. Requires that there is a next batch. For one caller at a time.
  Batch next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lmtrain
