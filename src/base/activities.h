// Tells what the threads of this process are doing, for whoever has to say where it hangs
// (run/records/stall_watch.h). Whoever does something that may never end says so by an Activity.
//
// An Activity costs a lock that is nearly always free: it is for what takes a millisecond or more.
// All calls may come from any thread. The table of the process is process_activities(); tests have
// tables of their own, with a clock that stands in for the time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace lmtrain {

// One thing that a thread is doing.
struct RunningActivity {
  uint64_t number = 0;  // differs for each activity of the process
  std::string kind;     // "syncing": durations are compared with those of the same kind
  std::string subject;  // "/runs/a/checkpoints/.tmp-step_00000010/model.safetensors"; or empty
  double seconds = 0;   // since it began, or last got further
  double longest = 0;   // the longest of its kind that has ended, in seconds
};

class Activities {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Activities(std::function<Clock::time_point()> now = Clock::now) : now_(std::move(now)) {}

  uint64_t begin(std::string_view kind, std::string_view subject);
  void get_further(uint64_t number);
  void end(uint64_t number);
  // Returns what is under way, in the order in which it began: of each thread the innermost.
  std::vector<RunningActivity> running() const;

 private:
  struct Entry {
    std::string kind, subject;
    std::thread::id thread;
    Clock::time_point since;
  };
  // Ends the time that the entry has taken.
  void count(const Entry& entry);

  std::function<Clock::time_point()> now_;
  mutable std::mutex mutex_;
  uint64_t next_ = 1;
  std::map<uint64_t, Entry> running_;
  std::map<std::string, double, std::less<>> longest_;
};

Activities& process_activities();

// Says that this thread does something, from here to the end of the block.
class Activity {
 public:
  explicit Activity(std::string_view kind, std::string_view subject = {},
                    Activities& table = process_activities())
      : table_(table), number_(table.begin(kind, subject)) {}
  ~Activity() { table_.end(number_); }
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  // Says that it is at work and does not hang.
  void get_further() { table_.get_further(number_); }

 private:
  Activities& table_;
  uint64_t number_;
};

}  // namespace lmtrain
