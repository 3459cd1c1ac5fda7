// The pause between two questions to the store where processes meet.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>

namespace lmtrain {

// Waits 5 ms at first, twice as long each time, and 20 to 500 ms at most: longer the more processes
// ask the store.
class Pause {
 public:
  explicit Pause(size_t num_processes)
      : longest_(std::clamp(Milliseconds(num_processes), Milliseconds(20), Milliseconds(500))) {}
  void wait() {
    std::this_thread::sleep_for(next_);
    next_ = std::min(2 * next_, longest_);
  }

 private:
  using Milliseconds = std::chrono::milliseconds;
  Milliseconds next_{5};
  Milliseconds longest_;
};

}  // namespace lmtrain
