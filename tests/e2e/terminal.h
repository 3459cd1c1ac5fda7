// A terminal that a test reads: what a program wrote to it, and what is on its screen.
#pragma once

#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace lmtrain::testing {

class Terminal {
 public:
  // Whether this system has pseudo-terminals: a root without /dev/ptmx has none.
  static bool available();
  explicit Terminal(unsigned short columns);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // The program's end, closed by close_program_end() once the program has it.
  int program_end() const { return program_end_; }
  void close_program_end();
  // Everything written so far; all of it once the program has ended and wait() has returned.
  std::string text();
  void wait();

 private:
  int own_end_ = -1;
  int program_end_ = -1;
  std::mutex mutex_;
  std::string text_;
  std::thread reader_;
};

// The lines that such a text leaves on a screen that is high and wide enough: carriage return goes
// to the first column, ESC [ K erases from there on.
std::vector<std::string> screen(const std::string& text);

}  // namespace lmtrain::testing
