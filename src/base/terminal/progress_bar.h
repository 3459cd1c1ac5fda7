// A progress line with time left for a pass over a known number of bytes. A pass also learns here
// that it has to stop.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace lmtrain {

class ProgressBar {
 public:
  ProgressBar(std::string action, uint64_t total_bytes);
  ~ProgressBar();  // takes the line off the terminal
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Counts `bytes` more as done, and prints the line, at most every half second. Throws
  // StopRequested (base/stop.h) when a signal has asked to stop.
  void advance(uint64_t bytes);
  // Counts bytes that were done before, and cost no time now.
  void skip(uint64_t bytes) { skipped_bytes_ += bytes; }
  // Replaces the line by what came of the pass, and how long it took: "reading  9 documents in 3s".
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
