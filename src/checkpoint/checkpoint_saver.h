// Saves checkpoints while training goes on. The caller takes the snapshot and says how it is
// written; one background thread writes it. At most one save is under way; a second one waits for
// it. Without checkpoint.async, or where no thread can be had, save() writes the checkpoint itself.
#pragma once

#include <functional>
#include <future>
#include <optional>

#include "checkpoint/state.h"

namespace lmtrain {

class CheckpointSaver {
 public:
  // `async` is checkpoint.async. `on_saved` (with the seconds that the writing took) and
  // `on_failed` (with the exception) are called with the state that was saved, by the thread that
  // calls save(), poll() or wait(); what they throw leaves that call. So on_failed decides whether
  // the run goes on: it throws or it does not.
  CheckpointSaver(bool async, std::function<void(const TrainingState&, double seconds)> on_saved,
                  std::function<void(const TrainingState&, const std::exception_ptr&)> on_failed);
  // Waits for the save under way and reports nothing: call wait() before.
  ~CheckpointSaver();

  // Waits for the save under way, reports it, and begins this one: `write` writes the checkpoint of
  // `state`, and is kept until that is reported.
  void save(const TrainingState& state, std::function<void()> write);
  // Reports a finished save without waiting for an unfinished one.
  void poll();
  // Waits for the save under way, if there is one, and reports it.
  void wait();
  // Does the same for a run that ends with an error, which matters more than what becomes of the
  // save: an error in it is a warning.
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
