// Activities say what the threads of this process are doing, so that the stall watch
// (runlog/stall_watch.h) can say where the process hangs. Code that may wait without end makes
// an Activity for that time.
//
// An Activity costs a lock that is nearly always free. Use one for work of a millisecond or more.
// Any thread may call. process_activities() is the table of the process; tests make their own.
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
  double seconds = 0;   // since it began, or since the last get_further()
  double longest = 0;   // the most `seconds` that one of this kind had when it ended or got further
};

class Activities {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Activities(std::function<Clock::time_point()> now = Clock::now) : now_(std::move(now)) {}

  // Returns the number that get_further() and end() take. The caller calls end() once.
  uint64_t begin(std::string_view kind, std::string_view subject);
  void get_further(uint64_t number);
  void end(uint64_t number);
  // Returns the activity that each thread began last, in the order in which they began.
  std::vector<RunningActivity> running() const;

 private:
  struct Entry {
    std::string kind, subject;
    std::thread::id thread;
    Clock::time_point since;
  };
  // Raises the longest time of the kind to the time since `entry.since`.
  void count(const Entry& entry);

  std::function<Clock::time_point()> now_;
  mutable std::mutex mutex_;
  uint64_t next_ = 1;
  std::map<uint64_t, Entry> running_;
  std::map<std::string, double, std::less<>> longest_;
};

Activities& process_activities();

// While an Activity exists, the thread that made it counts as busy with `kind` on `subject`.
class Activity {
 public:
  explicit Activity(std::string_view kind, std::string_view subject = {},
                    Activities& table = process_activities())
      : table_(table), number_(table.begin(kind, subject)) {}
  ~Activity() { table_.end(number_); }
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  // Says that the work advances: `seconds` begins at 0 again.
  void get_further() { table_.get_further(number_); }

 private:
  Activities& table_;
  uint64_t number_;
};

}  // namespace lmtrain
