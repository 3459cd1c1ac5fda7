// Says where the time between the start of the program and the end of its first step went: loading
// libraries, preparing data, making the model, and so on. The phases are in the order in which they
// ended, and their seconds add up to the whole.
//
// start_times() is the table of the process. Only main() calls begin(): without it, as in tests of
// parts, nothing is recorded. Only one thread may call. Nothing throws but std::bad_alloc.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lmtrain {

// Returns the seconds since the system started this process, to a hundredth, loading of the program
// included; 0 where Linux does not tell.
double process_age();

class StartTimes {
 public:
  using Phases = std::vector<std::pair<std::string, double>>;  // name, seconds

  // `age` returns the seconds since the start of the program; the argument is for tests.
  explicit StartTimes(std::function<double()> age = process_age) : age_(std::move(age)) {}

  // Begins to record. All time so far is the phase "program".
  void begin();
  // Ends a phase: the seconds since the last phase ended are its own. A name that was there before
  // gets them added.
  void end_phase(std::string_view name);
  // Ends the last phase, and the recording, and returns all phases; empty where nothing is
  // recorded, so that a run reports its first step once.
  Phases finish(std::string_view name);

 private:
  std::function<double()> age_;
  bool is_recording_ = false;
  double ended_ = 0;  // age at the end of the last phase
  Phases phases_;
};

StartTimes& start_times();

}  // namespace lmtrain
