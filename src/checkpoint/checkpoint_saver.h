// Saves checkpoints while training goes on. The caller takes the snapshot and gives the function
// that writes it; one background thread calls that function. At most one save is under way. Without
// checkpoint.async, or if no thread can be started, save() writes the checkpoint itself.
#pragma once

#include <functional>
#include <future>

#include "checkpoint/state.h"

namespace lmtrain {

class CheckpointSaver {
 public:
  // `async` is checkpoint.async. save(), poll() and wait() report a finished save: they call
  // `on_saved`, with the seconds of the writing, or `on_failed`, with the exception of `write`.
  // They pass on what these throw. So `on_failed` decides whether the run goes on.
  CheckpointSaver(bool async, std::function<void(const TrainingState&, double seconds)> on_saved,
                  std::function<void(const TrainingState&, const std::exception_ptr&)> on_failed);
  // Waits for the save under way, but does not report it: call wait() before.
  ~CheckpointSaver();

  // Waits for the save under way, reports it, and begins a save: `write` writes the checkpoint of
  // `state`. Keeps `write` until the save is reported.
  void save(const TrainingState& state, std::function<void()> write);
  // Reports the save under way if it is finished. Does not wait.
  void poll();
  // Waits for the save under way, if there is one, and reports it.
  void wait();
  // Does the same, but an error is only a warning. It is for a run that ends with another error.
  void wait_or_warn();

 private:
  void report();

  bool async_;
  std::function<void(const TrainingState&, double)> on_saved_;
  std::function<void(const TrainingState&, const std::exception_ptr&)> on_failed_;
  TrainingState state_;          // the state that the save under way writes
  std::future<double> writing_;  // the seconds that it took
};

}  // namespace lmtrain
