// Rank 0 sends orders to the other processes of a run, one after another, as JSON: prepare data,
// join a run, make an attempt (a trial of random restart, or the run itself), or end.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "config/config.h"
#include "distributed/processes.h"

namespace lmtrain {

// Tells one process of each machine (Processes::prepares) to prepare the data of `config`.
struct PrepareOrder {
  Config config;
};
// Tells to join the run with this config, which rank 0 has resolved. A process on GPUs takes the
// GPU of its own local rank instead of rank 0's.
struct RunOrder {
  Config config;
};
// Tells to construct a Trainer (training/trainer.h) and run it.
struct AttemptOrder {
  int64_t seed = 0;
  std::optional<int64_t> checkpoint;      // the step to go on from; nothing: the beginning
  bool is_trial = false;                  // a trial of random restart, of restart.tokens
  std::optional<double> max_time;         // seconds left of train.max_time
  std::optional<int64_t> last_step = {};  // TrainingOptions::last_step
};
// Tells to end. All processes use this exit code.
struct EndOrder {
  int exit_code = 0;
};
using Order = std::variant<PrepareOrder, RunOrder, AttemptOrder, EndOrder>;

// Sends an order from rank 0 to all other processes. Does nothing with one process.
void broadcast_order(Processes& processes, const Order& order);
// Waits for the next order and returns it. Only ranks after 0 call it. Throws the errors of
// Processes::receive_order().
Order receive_order(Processes& processes);

}  // namespace lmtrain
