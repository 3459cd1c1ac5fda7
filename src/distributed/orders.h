// Sends the orders that rank 0 of a run gives the others, one after another and as JSON: which
// data they prepare, which run it is, which attempts it makes (trials of random restart, the run
// itself), and that it is over.
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
// Tells to join the run with this config, resolved by rank 0. Threads are the same everywhere, the
// device of each process follows from its local rank.
struct RunOrder {
  Config config;
};
// Tells to make a Trainer (training/trainer.h) and run it: with this seed, from the checkpoint of this
// step, if any, as a trial of restart.tokens if `is_trial`, with `max_time` seconds left of
// train.max_time, and up to `last_step` (Trainer::last_step).
struct AttemptOrder {
  int64_t seed = 0;
  std::optional<int64_t> checkpoint;
  bool is_trial = false;
  std::optional<double> max_time;
  std::optional<int64_t> last_step = {};
};
// Tells to end, with the exit code of all.
struct EndOrder {
  int exit_code = 0;
};
using Order = std::variant<PrepareOrder, RunOrder, AttemptOrder, EndOrder>;

// Rank 0 tells an order to all others; one process alone tells nobody.
void tell(Processes& processes, const Order& order);
// The others wait for the next order and return it. Throws ProcessLost.
Order listen(Processes& processes);

}  // namespace lmtrain
