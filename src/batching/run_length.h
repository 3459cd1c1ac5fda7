// The length of a run, and each change of it, are kept in the run's state.
#pragma once

#include <cstdint>

namespace lmtrain {

// Exactly one is above 0. Tokens are targets.
struct RunLength {
  int64_t steps = 0;
  int64_t tokens = 0;
  double epochs = 0;
};

// A change of the run's length on resume. The batches from `first_batch` on are planned anew.
// Earlier batches stay as they are, and the stream of each length goes on where it was.
struct Replan {
  int64_t first_batch = 0;
  RunLength left;  // steps and tokens: still to come from first_batch on; epochs: of the whole run
};

}  // namespace lmtrain
