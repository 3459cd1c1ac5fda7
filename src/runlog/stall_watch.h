// Says where a run hangs. A thread looks now and then at the activities of the process
// (base/activities.h). It reports an activity that has taken ten times as long as any of its kind
// before, and at least `log.stall` of the config. It ends nothing, since the activity may go on; it
// then reports this too.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/activities.h"

namespace lmtrain {

// An activity that hangs, or that has hung and is over.
struct Stall {
  RunningActivity activity;
  bool over = false;

  // Returns "syncing FILE", "waiting for data".
  std::string what() const;
  // Returns the sentence for people.
  std::string text() const;
};

// Decides which activities to report. It has no thread and no clock.
class StallFinder {
 public:
  static constexpr double kTimesTheLongest = 10;

  explicit StallFinder(double least_seconds) : least_seconds_(least_seconds) {}
  // Returns the activities of `running` that hang, each only once, and returned ones that are now
  // over. `running` are the present activities of the process.
  std::vector<Stall> look(const std::vector<RunningActivity>& running);

 private:
  double least_seconds_;
  std::map<uint64_t, RunningActivity> reported_;
};

// Logs what a StallFinder finds, and writes events.
class StallWatch {
 public:
  // Events go to the file `events`, if there is one. With `least_seconds` 0 it watches nothing. If
  // no thread can be started, it only logs a warning.
  StallWatch(std::optional<std::filesystem::path> events, double least_seconds);
  // Reports activities that hung and are over, unless that was reported before.
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

  // Sets the step and batch that the events name.
  void run_is_at(int64_t step, int64_t batch);

 private:
  void watch(double least_seconds);
  void report(const Stall& stall) const;

  std::optional<std::filesystem::path> events_;
  std::atomic<int64_t> step_ = 0, batch_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace lmtrain
