// Does work in a thread of its own, one thing after another: exchanges with the other processes,
// beside the computation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

namespace lmtrain {

class WorkLine {
 public:
  // Throws Error(kMemory) where no thread can be had.
  WorkLine();
  // Does not wait longer than a second for work that is under way, which may then outlive this:
  // work must have all that it uses.
  ~WorkLine();
  WorkLine(const WorkLine&) = delete;
  WorkLine& operator=(const WorkLine&) = delete;

  // Adds work and returns its number: 1, 2, 3, ...
  uint64_t add(std::function<void()> work);
  // Waits for the work of this number and all before it. Throws what has failed in the thread,
  // which does nothing more then.
  void wait(uint64_t number);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which an exchange may hold up
  std::thread thread_;
};

}  // namespace lmtrain
