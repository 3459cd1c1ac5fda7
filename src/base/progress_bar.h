// A ProgressBar shows how far a pass over a known number of bytes has come, and the time left. A
// pass also learns from it that a signal asks to stop. One thread uses it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace lmtrain {

class ProgressBar {
 public:
  // Prints nothing yet. The lines begin with `action`: "reading".
  ProgressBar(std::string action, uint64_t total_bytes);
  ~ProgressBar();  // erases the line from the terminal
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Counts `bytes` more as done, and prints the line: on a terminal at most every half second,
  // elsewhere once a minute. Throws StopRequested (base/stop.h) when a signal has asked to stop.
  void advance(uint64_t bytes);
  // Counts bytes that an earlier pass has done. They raise the share that is done, but not the
  // speed.
  void skip(uint64_t bytes) { skipped_bytes_ += bytes; }
  // Logs a note with the result of the pass and how long it took: "reading  9 documents in 3s".
  void finish(std::string_view result);

 private:
  using Clock = std::chrono::steady_clock;

  std::string action_;
  uint64_t total_bytes_;
  uint64_t done_bytes_ = 0;
  uint64_t skipped_bytes_ = 0;
  Clock::time_point started_ = Clock::now();
  Clock::time_point printed_ = started_;
  Clock::time_point kept_ = started_;
};

}  // namespace lmtrain
