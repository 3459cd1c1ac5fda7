// Reports where a run hangs. A thread watches the activities of the process (base/activities.h). It
// reports an activity that has taken ten times as long as any earlier one of its kind, and at least
// `log.stall` of the config. It ends nothing; if the activity ends after all, it reports that too.
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

// An activity that hangs, or has hung and is now over.
struct Stall {
  RunningActivity activity;
  bool over = false;

  // Returns "syncing FILE", "waiting for data".
  std::string what() const;
  // Returns the sentence for people.
  std::string text() const;
};

// Decides which activities to report. Has no thread and no clock.
class StallFinder {
 public:
  static constexpr double kTimesTheLongest = 10;

  explicit StallFinder(double least_seconds) : least_seconds_(least_seconds) {}
  // Returns the activities of `running`, the present activities of the process, that hang, each
  // only once; and activities that it has returned before and that are now over.
  std::vector<Stall> look(const std::vector<RunningActivity>& running);

 private:
  double least_seconds_;
  std::map<uint64_t, RunningActivity> reported_;
};

// Logs what a StallFinder finds, and writes events.
class StallWatch {
 public:
  // Appends events to the file `events`, if given. With `least_seconds` 0 it watches nothing. If no
  // thread can be started, only warns.
  StallWatch(std::optional<std::filesystem::path> events, double least_seconds);
  // Reports activities that hung and are over, unless that was reported before.
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

  // Sets the step and batch that the events name. Any thread may call it.
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
