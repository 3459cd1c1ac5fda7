// A Loader gives batches in order from a given index; one thread builds them ahead. To continue
// later, a new one is made with the index of the next batch.
#pragma once

#include <cstdint>
#include <memory>

#include "batching/batch.h"
#include "batching/batch_order.h"

namespace lmtrain {

class Loader {
 public:
  // Gives the share `share` of each batch in [first, end), or without end if `end` is negative. The
  // thread keeps `depth` batches ready, and holds one more that it has built. `depth` must be at
  // least 1. `order` must outlive the loader. Throws Error(kMemory) if the system refuses a thread.
  Loader(const BatchOrder& order, int64_t first, int64_t end = -1, const BatchShare& share = {},
         int64_t depth = 4);
  // Stops the thread; waits at most for the batch it is building.
  ~Loader();
  // Waits for the next batch and returns it. When the thread fails, the batches that it has built
  // are returned first. After them each call throws what the thread threw. Past the end it throws
  // Error(kInternal). Only one thread at a time may call it.
  Batch next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lmtrain
