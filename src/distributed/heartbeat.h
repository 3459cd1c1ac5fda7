// Each process of a run has a Heartbeat. It gives signs of life, follows the signs of the others,
// and tells why a process has ended. It uses the store where the processes met, not the exchanges
// of training.
//
// A thread writes a sign of life to the store twice a second and reads whether some process has
// given up. If one has and the main thread of this process still runs ten seconds later, the thread
// ends the process; a process that is writing a checkpoint is given ten minutes. Waiting for the
// store is bounded everywhere, since the process that serves it may be the one that hangs.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace c10d {
class Store;
}

namespace lmtrain {

// The reason why a run of several processes ends early, and the exit code of each of them.
struct Loss {
  int exit_code = lmtrain::exit_code(ErrorKind::kIo);
  std::string cause;
  int64_t num_lost = 1;  // processes that cannot read this: the one that has ended, or is silent
};

class Heartbeat {
 public:
  // The processes of the run, and which of them this one is.
  struct Group {
    int rank = 0;
    std::vector<std::string> names;  // by rank, for messages
    // The rank that serves the store; none: torchrun's agent does.
    std::optional<int> server;
  };
  // Ends a process whose main thread does not end. It writes a message and calls _exit, except in
  // tests. The thread of the heartbeat calls it; it must not be empty.
  using EndProcess = std::function<void(const Loss&)>;

  // Starts the thread. `store` must be a connection that nobody else uses: a call that hangs in it
  // would hold up the signs of life. `forced_end` is how long this process may still run when
  // another one has given up.
  Heartbeat(c10::intrusive_ptr<c10d::Store> store, Group group, EndProcess end_process,
            std::chrono::milliseconds forced_end = std::chrono::seconds(10));
  // Stops the thread, and waits one second at most for its end.
  ~Heartbeat();

  // Call this before each exchange. The numbers tell find_cause() which process is behind.
  void count_exchange();
  int64_t exchanges() const;
  // Says that this process begins, or has ended, the writing of a checkpoint. Any thread may call
  // it.
  void mark_saving(bool is_saving);

  // Writes to the store that this process ends and why, unless another loss is there. A process
  // that serves the store waits until all that live have read it, at most three seconds.
  void give_up(const Loss& loss) noexcept;
  // Finds out why an exchange has failed: which process has given up, is silent or is behind. It
  // writes the cause to the store, so that all processes name the same one; `seen`, the error
  // message of the exchange here, becomes a part of it. Takes about four seconds; some ten when the
  // store answers slowly.
  Loss find_cause(const std::string& seen);
  // Waits until `done` returns true; returns nothing then. Returns the Loss when a process has
  // given up, one of the ranks in `awaited` has given no sign of life for `patience`, or `done`
  // throws or takes longer than `patience`. Once a signal has asked this process to stop, it waits
  // for a silent one for five seconds at most. Another thread calls `done`, which may ask the store
  // and may still run when wait() has returned, so it must own all that it uses.
  std::optional<Loss> wait(const std::vector<int>& awaited, const std::function<bool()>& done,
                           std::chrono::milliseconds patience);
  // Returns what `question` returns, which may ask the store; nothing where it takes longer than
  // two seconds or fails. Another thread calls it, as in wait().
  static std::optional<bool> ask(const std::function<bool()>& question);
  // Call this at the end of a run that went well. It stops the signs of life. The process that
  // serves the store waits until the others have left, at most three seconds.
  void leave();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may hang in the store
};

}  // namespace lmtrain
