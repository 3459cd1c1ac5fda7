// How long a run is, and how that was changed. Both are kept in a run's state.
#pragma once

#include <cstdint>

namespace lmtrain {

// Exactly one is set.
struct RunLength {
  int64_t steps = 0;
  int64_t tokens = 0;
  double epochs = 0;
};

// The total was changed on resume: what is left from `first_batch` on is planned anew. Batches
// before it stay as they are, and every length's stream goes on where it was.
struct Replan {
  int64_t first_batch = 0;
  RunLength left;  // steps and tokens: still to come from first_batch on; epochs: of the whole run
};

}  // namespace lmtrain
