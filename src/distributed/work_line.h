// Does work in threads of its own: exchanges with the other processes, beside the computation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "config/config.h"
#include "distributed/processes.h"

namespace lmtrain {

// Does one thing after another in a thread.
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

// Makes the exchanges of the chunks of a tensor at the same time: chunk i in thread i modulo their
// number, over connections that this thread has alone (Processes::aside). So a chunk that is on its
// way over a slow link holds up none of the next ones. All processes add the same chunks in the
// same order.
class ExchangeLines {
 public:
  // Each exchange gets a thread.
  explicit ExchangeLines(const std::vector<RangeExchange*>& exchanges);
  // There is no thread: add() makes the exchange itself.
  explicit ExchangeLines(RangeExchange& exchange) : alone_(&exchange) {}

  // Returns whether exchanges go on while the caller computes.
  bool are_beside() const { return !lines_.empty(); }
  // Adds the exchange of a chunk. `exchange` has all that it uses, since it may outlive this where
  // a connection hangs.
  void add(size_t chunk, std::function<void(RangeExchange&)> exchange);
  // Waits for all that were added. Throws what has failed in a thread.
  void wait();

 private:
  struct Line {
    RangeExchange* exchange = nullptr;
    std::unique_ptr<WorkLine> work;
    uint64_t last = 0;  // the number of its last exchange
  };

  RangeExchange* alone_ = nullptr;
  std::vector<Line> lines_;  // none where alone_ is there
};

// Returns the lines of a run. They have no threads with one process, on a GPU, where exchanges
// follow its stream, and where weights are divided, which has a thread of its own
// (distributed/sharded_weights.h). Every process makes the call at the same point.
ExchangeLines exchange_lines(Processes& processes, const Config& config);

}  // namespace lmtrain
