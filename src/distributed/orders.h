// Sends the orders of rank 0 to the other processes of a run, one after another, as JSON. An order
// is to prepare data, to join a run, to make an attempt (a trial of random restart, or the run
// itself), or to end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "config/config.h"
#include "distributed/processes.h"

namespace lmtrain {

// Tells one process of each machine (Processes::prepares) to prepare the data of `config`.
struct PrepareOrder {
  Config config;
};
// Tells to join the run with this config, which rank 0 has resolved. All processes use the same
// number of threads. The device of a process follows from its local rank.
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
// Waits for the next order and returns it; only ranks after 0 call it. Throws ProcessLost.
Order receive_order(Processes& processes);

}  // namespace lmtrain
