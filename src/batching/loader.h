// Batches in order from a given index, built ahead by one thread. State: one index.
#pragma once

#include <cstdint>
#include <memory>

#include "batching/batch.h"
#include "batching/batch_order.h"

namespace lmtrain {

class Loader {
 public:
  // Begins at batch `first`; keeps up to `depth` batches ahead. The order must outlive the loader. `last` < 0: endless.
  Loader(const BatchOrder& order, int64_t first, int64_t last = -1, int64_t depth = 4);
  ~Loader();
  // Blocks until it is there; what went wrong in the thread is thrown here. Requires that there is a next batch.
  Batch next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lmtrain
