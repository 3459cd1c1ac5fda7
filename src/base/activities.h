// Activities say what the threads of this process are doing, so that the stall watch
// (runlog/stall_watch.h) can say where the process hangs. Code that may wait without end makes
// an Activity for that time.
//
// An Activity costs a lock that is nearly always free. Use one for work of a millisecond or more.
// All calls may come from any thread. The table of the process is process_activities(); tests make
// tables of their own, with a clock of their own.
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
  std::string kind;     // "syncing"; durations of one kind are compared with each other
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
  // Returns the innermost activity of each thread, in the order in which they began.
  std::vector<RunningActivity> running() const;

 private:
  struct Entry {
    std::string kind, subject;
    std::thread::id thread;
    Clock::time_point since;
  };
  // Keeps the time since `entry.since` if it is the longest of its kind.
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

  // Says that the activity gets on: its time begins anew.
  void get_further() { table_.get_further(number_); }

 private:
  Activities& table_;
  uint64_t number_;
};

}  // namespace lmtrain
