// Saves checkpoints beside training: the snapshot is taken at once, the writing is one background
// thread's work. At most one save is under way; a second one waits for it.
#pragma once

#include <functional>
#include <future>
#include <optional>

#include "checkpoint/checkpoint.h"

namespace lmtrain {

class CheckpointSaver {
 public:
  // The layout and texts must outlive the saver. `on_saved` and `on_failed` are called by the
  // thread that owns the saver, in save(), poll() and wait(), with the state that was saved;
  // on_failed decides whether the run goes on, by throwing or not.
  CheckpointSaver(const RunFolder& run, const CheckpointConfig& config,
                  const CheckpointTexts& texts, const ParameterLayout& layout,
                  std::function<void(const TrainingState&, double seconds)> on_saved,
                  std::function<void(const TrainingState&, const std::exception_ptr&)> on_failed);
  ~CheckpointSaver();

  void save(CheckpointSnapshot snapshot);
  // Reports a finished save without waiting for an unfinished one.
  void poll();
  // Until nothing is under way.
  void wait();

 private:
  void report();

  RunFolder run_;
  CheckpointConfig config_;
  const CheckpointTexts& texts_;
  const ParameterLayout& layout_;
  std::function<void(const TrainingState&, double)> on_saved_;
  std::function<void(const TrainingState&, const std::exception_ptr&)> on_failed_;
  TrainingState state_;          // of the save under way
  std::future<double> writing_;  // seconds it took
};

}  // namespace lmtrain
