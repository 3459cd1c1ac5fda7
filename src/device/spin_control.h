// A SpinControl decides how long threads that wait for others at the end of a parallel region spin
// before they sleep.
//
// libgomp's threads spin for some milliseconds: the fastest way if each has its own processor. On a
// busy machine a spinning thread takes the processor from the thread that it waits for, so it
// should sleep soon. libgomp spins for only 3 us while it has more threads than there are
// processors (gomp_managed_threads in its config/linux/wait.h). So for short waits a SpinControl
// adds threads that sleep.
//
// It changes no result, and has no effect on another OpenMP library. One thread uses it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

namespace lmtrain {

// Returns whether waits should be short. `queueing_share` is the share of its time (0 to 1) that a
// thread waited for a processor. Below 0.05 waits are long, above 0.2 short, and between as before
// (`is_short`).
bool should_wait_shortly(bool is_short, double queueing_share);

class SpinControl {
 public:
  // Waits are long. They stay so if the user has set GOMP_SPINCOUNT or OMP_WAIT_POLICY.
  SpinControl();
  ~SpinControl();
  SpinControl(const SpinControl&) = delete;
  SpinControl& operator=(const SpinControl&) = delete;

  // Measures how long the calling thread has waited for a processor since the last measure, and
  // adapts the waits by should_wait_shortly(). Call it between parallel regions, on the thread that
  // starts them, as often as you like: it measures ten times a second at most. Does nothing without
  // /proc/thread-self/schedstat.
  void adjust();

  // Makes waits short or long. Short waits hold sleeping threads, which have ended when
  // set_short(false) returns. If the user decides or the system refuses the threads, waits stay
  // long and is_short() is false.
  void set_short(bool is_short);
  bool is_short() const { return sleepers_ != nullptr; }

 private:
  struct Sample {
    std::chrono::steady_clock::time_point time;
    int64_t queued_ns = 0;
  };
  class Sleepers;

  static std::optional<Sample> sample();

  bool decided_by_user_;
  std::optional<Sample> last_;
  std::unique_ptr<Sleepers> sleepers_;
};

// Calls adjust() of the SpinControl of the calling thread, which lasts until the thread ends. All
// that computes on a CPU calls it now and then: training, evaluation, measuring, generation.
void adjust_spinning();

}  // namespace lmtrain
