// Lines of progress on a terminal, and classes that print them while a computation goes on. One
// thread uses an object.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lmtrain {

// A line of progress consists of parts; where the terminal is narrow, some are left out.
struct LinePart {
  std::string text;
  int drop = 0;  // the part with the highest number is left out first; 0: never
};

// Returns all parts, two spaces apart.
std::string whole_line(const std::vector<LinePart>& parts);
// Leaves out parts, the highest `drop` first, until the line has at most `columns` bytes. A line
// that is still longer is cut after `columns` bytes.
std::string fitted_line(std::vector<LinePart> parts, size_t columns);

// Breaks each line of `text` that has more than `columns` characters, before a word; its next lines
// are indented as its text is. So that they can be copied from the terminal, a line with a command
// (`lmtrain ...`) and a word that is longer than a line stay whole.
std::string wrapped_lines(std::string_view text, size_t columns);

// A ProgressBar shows how far a pass over a known number of bytes has come, and the time left. It
// also stops the pass when a signal asks to stop.
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
  // Counts bytes that an earlier pass has done. They count in the share done, but not in the speed.
  void skip(uint64_t bytes) { skipped_bytes_ += bytes; }
  // Counts the bytes of one file up to `bytes`, but never more than its `size`, nor less than
  // before. `counted`, 0 at first, is what was counted of this file; reach() moves it on. Throws
  // like advance().
  void reach(uint64_t bytes, uint64_t size, uint64_t& counted);
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

// A PercentLine shows on a terminal how far a computation has come, in a line that is rewritten at
// most five times a second: "evaluating  37 %". Elsewhere it shows nothing.
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
