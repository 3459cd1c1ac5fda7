// state.json of a checkpoint.
#include "checkpoint/state.h"

#include "fuzz/target.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(state) {
  TrainingState state;
  const auto read = [&] { state = parse_state(std::string(input), "state.json"); };
  if (!accepts(read)) return;
  const std::string written = state_to_text(state);
  const TrainingState again = parse_state(written, "state.json");
  require(state_to_text(again) == written, "a state that is written reads as another");
  require(!must_save_again(state, again), "a state that is written counts as another");
}

}  // namespace lmtrain::fuzzing
