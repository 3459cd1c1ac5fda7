// A PercentLine shows on a terminal how far a computation has come, in a line that is rewritten at
// most five times a second: "evaluating  37 %". Elsewhere it shows nothing. One thread uses it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lmtrain {

class PercentLine {
 public:
  // Prints nothing yet. `total` is what show() reaches at the end.
  PercentLine(std::string action, int64_t total);
  ~PercentLine();  // erases the line from the terminal
  PercentLine(const PercentLine&) = delete;
  PercentLine& operator=(const PercentLine&) = delete;

  void show(int64_t done);  // `done` of `total` is done

 private:
  using Clock = std::chrono::steady_clock;

  std::string action_;
  int64_t total_;
  Clock::time_point shown_ = Clock::now();
};

}  // namespace lmtrain
