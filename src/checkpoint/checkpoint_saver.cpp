#include "checkpoint/checkpoint_saver.h"

#include <chrono>
#include <system_error>

#include "base/activities.h"
#include "base/elapsed.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/run_folder.h"
#include "device/failure.h"

namespace lmtrain {

CheckpointSaver::CheckpointSaver(
    bool async, std::function<void(const TrainingState&, double)> on_saved,
    std::function<void(const TrainingState&, const std::exception_ptr&)> on_failed)
    : async_(async), on_saved_(std::move(on_saved)), on_failed_(std::move(on_failed)) {}

CheckpointSaver::~CheckpointSaver() {
  if (writing_.valid()) writing_.wait();
}

void CheckpointSaver::save(const TrainingState& state, std::function<void()> write) {
  wait();
  state_ = state;
  const auto timed = [write = std::move(write)] {
    const auto begin = std::chrono::steady_clock::now();
    write();
    return seconds_since(begin);
  };
  if (async_) {
    try {
      writing_ = std::async(std::launch::async, timed);
      return;
    } catch (const std::system_error& error) {
      // A checkpoint that is late is better than none.
      log_warning(str("no thread can be had to write the checkpoint of step ", state_.step,
                      ", so training waits for it: ", error.code().message()));
    }
  }
  writing_ = std::async(std::launch::deferred, timed);
  report();
}

void CheckpointSaver::poll() {
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
    report();
}

void CheckpointSaver::wait() {
  if (writing_.valid()) report();
}

void CheckpointSaver::wait_or_warn() {
  try {
    wait();
  } catch (const std::exception& error) {
    log_warning(describe_failure(error).message);
  }
}

void CheckpointSaver::report() {
  const Activity waiting("waiting for the checkpoint", step_name(state_.step));
  double seconds = 0;
  std::exception_ptr failure;
  try {
    seconds = writing_.get();
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    on_failed_(state_, failure);
  } else {
    on_saved_(state_, seconds);
  }
}

}  // namespace lmtrain
