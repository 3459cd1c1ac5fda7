// Says where a run hangs. A thread looks now and then at what the process is doing
// (base/activities.h) and reports what takes far longer than any of its kind has taken: ten times
// as long, and `log.stall` of the config at least. It ends nothing, since what hangs may go on;
// then that is reported too.
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

// An activity that hangs, or has hung and is over.
struct Stall {
  RunningActivity activity;
  bool over = false;

  // Returns "syncing FILE", "waiting for data".
  std::string what() const;
  // Returns the sentence for people.
  std::string text() const;
};

// Decides what is reported; it has no thread and no clock.
class StallFinder {
 public:
  static constexpr double kTimesTheLongest = 10;

  explicit StallFinder(double least_seconds) : least_seconds_(least_seconds) {}
  // Returns what hangs, each once, and what was returned before and is over. `running` is what
  // the process is doing now.
  std::vector<Stall> look(const std::vector<RunningActivity>& running);

 private:
  double least_seconds_;
  std::map<uint64_t, RunningActivity> reported_;
};

// Warns of what a StallFinder finds, and writes events.
class StallWatch {
 public:
  // Events go to the file `events`; none: they are not written. `least_seconds` 0: nothing is
  // watched. Where no thread can be had, a warning says so.
  StallWatch(std::optional<std::filesystem::path> events, double least_seconds);
  // Reports what hung and is over, if that was not reported yet.
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

  // Says where the run stands, for the events.
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
