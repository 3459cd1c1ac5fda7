// A processor that two threads want.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

namespace lmtrain::testing {

inline int64_t num_threads_of_process() {
  int64_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (!task.path().empty()) ++count;
  }
  return count;
}

// Returns why waits do not adapt to the load here (device/spin_control.h); empty if they do.
inline std::string why_waits_stay() {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr)
    return "the environment decides how threads wait";
  if (!std::filesystem::exists("/proc/thread-self/schedstat"))
    return "the system does not tell how long a thread waits for a processor";
  return "";
}

// While it exists the calling thread, and every thread that it starts, shares one processor with a
// thread that never waits.
class BusyProcessor {
 public:
  BusyProcessor() {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    burner_ = std::thread([this] {
      while (!end_.load(std::memory_order_relaxed)) {
      }
    });
  }
  ~BusyProcessor() {
    end_ = true;
    burner_.join();
    sched_setaffinity(0, sizeof before_, &before_);
  }
  BusyProcessor(const BusyProcessor&) = delete;
  BusyProcessor& operator=(const BusyProcessor&) = delete;

 private:
  cpu_set_t before_{};
  std::atomic<bool> end_ = false;
  std::thread burner_;
};

}  // namespace lmtrain::testing
