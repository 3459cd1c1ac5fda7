// Saves checkpoints beside training: the snapshot is taken at once, the writing is one background thread's work. At most one
// save is under way; a second one waits for it.
#pragma once

#include <functional>
#include <future>
#include <optional>

#include "train/checkpoint.h"

namespace lmtrain {

class CheckpointSaver {
 public:
  // The layout and texts must outlive the saver. `on_saved` and `on_failed` are called by the thread that owns the saver, in
  // save() and wait(); on_failed decides whether the run goes on, by throwing or not.
  CheckpointSaver(const RunFolder& run, const CheckpointConfig& config, const CheckpointTexts& texts,
                  const ParameterLayout& layout, std::function<void(int64_t step, double seconds)> on_saved,
                  std::function<void(int64_t step, const std::exception_ptr&)> on_failed);
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
  std::function<void(int64_t, double)> on_saved_;
  std::function<void(int64_t, const std::exception_ptr&)> on_failed_;
  int64_t step_ = 0;
  std::future<double> writing_;  // seconds it took
};

}  // namespace lmtrain
