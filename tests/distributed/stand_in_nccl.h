// A library like liblmtrain_nccl.so whose GPUs are the host's memory and whose processes are
// threads of the test, which control it.
#pragma once

#include <atomic>

namespace lmtrain::testing {

struct StandInNccl {
  // What goes wrong, until reset().
  std::atomic<bool> lacks_gpu = false;   // one process has no GPU
  std::atomic<bool> shares_gpu = false;  // all have the same one
  std::atomic<int> refused_rank = -1;    // connecting fails there, and stays under way elsewhere
  std::atomic<int> failing_rank = -1;    // its exchanges fail
  std::atomic<int> hanging_rank = -1;    // its exchanges never end
  std::atomic<int> versions = 1;         // different ones of NCCL

  // What was called.
  std::atomic<int> connected = 0, aborted = 0, sums = 0, broadcasts = 0, swaps = 0, all_gathers = 0,
                   reduce_scatters = 0;

  void reset() {
    lacks_gpu = shares_gpu = false;
    refused_rank = failing_rank = hanging_rank = -1;
    versions = 1;
    connected = aborted = sums = broadcasts = swaps = all_gathers = reduce_scatters = 0;
  }
};

// The library exports it too, so that a test and the library that it has loaded share one.
StandInNccl& stand_in_nccl();

}  // namespace lmtrain::testing
