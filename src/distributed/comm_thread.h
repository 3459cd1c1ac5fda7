// Exchanges data with other processes in background threads, while the caller computes. Only one
// thread may call an object.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "config/config.h"
#include "distributed/processes.h"

namespace lmtrain {

// Calls functions in one thread, in the order in which they were added.
class CommThread {
 public:
  // Throws Error(kMemory) when the thread cannot be started.
  CommThread();
  // Drops the functions that have not begun. Waits at most one second for the running one, which
  // may outlive this object: so a function must own or share everything that it uses.
  ~CommThread();
  CommThread(const CommThread&) = delete;
  CommThread& operator=(const CommThread&) = delete;

  // Queues `work` and returns its number: 1, 2, 3, ...
  uint64_t add(std::function<void()> work);
  // Waits until the work of this number, and all earlier work, is done; 0 waits for nothing. After
  // a failure the thread does no more work, and every wait() rethrows the error.
  void wait(uint64_t number);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which an exchange may hold up
  std::thread thread_;
};

// Exchanges several chunks of a tensor at the same time. With n threads, thread i mod n exchanges
// chunk i, over connections that only it uses (Processes::extra_groups). So a chunk on a slow link
// does not hold up the chunks of other threads. All processes must add the same chunks in the same
// order.
class CommThreads {
 public:
  // Starts one thread for each of `exchanges`, which must outlive the threads. Throws as
  // CommThread().
  explicit CommThreads(const std::vector<RangeExchange*>& exchanges);
  // Starts no thread: add() itself makes the exchange, and throws its error.
  explicit CommThreads(RangeExchange& exchange) : alone_(&exchange) {}

  // Returns whether exchanges run in threads, while the caller computes.
  bool are_beside() const { return !threads_.empty(); }
  // Queues `exchange`, the exchange of the chunk with index `chunk`. It must own or share
  // everything that it uses, since it outlives this object when a connection hangs.
  void add(size_t chunk, std::function<void(RangeExchange&)> exchange);
  // Waits for all exchanges that were queued. Rethrows the error of a thread.
  void wait();

 private:
  struct Thread {
    RangeExchange* exchange = nullptr;
    std::unique_ptr<CommThread> work;
    uint64_t last = 0;  // the number of its last exchange
  };

  RangeExchange* alone_ = nullptr;
  std::vector<Thread> threads_;  // empty when alone_ is set
};

// Returns the threads of a run. Every process makes the call at the same point. There are no
// threads:
//   with one process
//   on a GPU, where exchanges follow the GPU's stream
//   with divided weights, which have a thread of their own (distributed/sharded_weights.h)
CommThreads comm_threads(Processes& processes, const Config& config);

}  // namespace lmtrain
