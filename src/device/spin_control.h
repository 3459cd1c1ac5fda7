// A SpinControl decides how long threads that wait for others at the end of a parallel region spin
// before they sleep.
//
// libgomp lets them spin for some milliseconds, which is fastest while each has a processor of its
// own. On a busy machine a spinning thread takes the processor from the very thread that is waited
// for, so there they should sleep at once. libgomp decides between the two at every wait: it spins
// for about 3 us while it has more threads than there are processors (gomp_managed_threads in its
// config/linux/wait.h). A SpinControl makes it so by threads that sleep in a team of their own.
//
// It changes no result. With another OpenMP library it does nothing but hold a few sleeping
// threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

namespace lmtrain {

// Returns whether waits should be short, from the share of its time that a thread stood in the
// queue for a processor (0 to 1). Below a twentieth they are long, above a fifth short, and between
// the two they remain as they are.
bool should_wait_shortly(bool is_short, double queueing_share);

class SpinControl {
 public:
  // Leaves libgomp alone for good where the user decides, by GOMP_SPINCOUNT or OMP_WAIT_POLICY.
  SpinControl();
  ~SpinControl();
  SpinControl(const SpinControl&) = delete;
  SpinControl& operator=(const SpinControl&) = delete;

  // Measures how long the calling thread has queued for a processor since the last call, and adapts
  // the waits to it. The thread that starts the parallel regions calls this between two of them, as
  // often as it likes: the measure is taken twice a second at most. Does nothing where the system
  // does not tell (/proc/thread-self/schedstat).
  void adjust();

  // Makes waits short or long. Short waits need threads that the object holds; when it makes waits
  // long, these have ended before it returns. Where the user decides, or the system refuses the
  // threads, waits remain long: is_short() is then false.
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

}  // namespace lmtrain
