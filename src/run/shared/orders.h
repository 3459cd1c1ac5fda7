// The orders that rank 0 of a run gives the others, one after another: which run it is, which
// attempts it makes (trials of random restart, the run itself), and that it is over. As lines of
// JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "config/config.h"
#include "processes/processes.h"

namespace lmtrain {

// The run: its config, resolved by rank 0. Threads are the same everywhere, the device of each
// process follows from its local rank.
struct RunOrder {
  Config config;
};
// A Trainer from here on (run/trainer.h): its seed, the step of its checkpoint, whether it is a
// trial of restart.tokens, and what is left of train.max_time.
struct AttemptOrder {
  int64_t seed = 0;
  std::optional<int64_t> checkpoint;
  bool is_trial = false;
  std::optional<double> max_time;
};
// The end, with the exit code of all.
struct EndOrder {
  int exit_code = 0;
};
using Order = std::variant<RunOrder, AttemptOrder, EndOrder>;

void tell(Processes& processes, const Order& order);
Order listen(Processes& processes);

}  // namespace lmtrain
