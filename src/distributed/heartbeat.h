// Each process of a run has a Heartbeat. It gives signs of life, reads the signs of other
// processes, and finds out why a process has ended. It uses the store of the rendezvous, and no
// exchange.
//
// A thread writes a sign of life to the store twice a second, and reads whether a process has given
// up. If one has, this process must end within ten seconds, or within ten minutes while it writes a
// checkpoint; else the thread ends it. Every wait for the store has a limit, since the process that
// serves the store may hang.
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

// Says why a run of several processes ends early. All its processes use this exit code.
struct Loss {
  int exit_code = lmtrain::exit_code(ErrorKind::kIo);
  std::string cause;
  int64_t num_lost = 1;  // how many processes are lost, and so cannot read this
};

class Heartbeat {
 public:
  // The processes of the run, and which of them this one is.
  struct Group {
    int rank = 0;
    std::vector<std::string> names;  // by rank, for messages
    // The rank of the process that serves the store; nothing: torchrun's agent does.
    std::optional<int> server;
  };
  // Ends this process, whose main thread has not ended: writes a message and calls _exit, except in
  // tests. The heartbeat's thread calls it. It must not be empty.
  using EndProcess = std::function<void(const Loss&)>;

  // Starts the thread. Nobody else may use the connection `store`: a call that hangs in it would
  // stop the signs of life. `forced_end` is how long this process may still run after another one
  // has given up.
  Heartbeat(c10::intrusive_ptr<c10d::Store> store, Group group, EndProcess end_process,
            std::chrono::milliseconds forced_end = std::chrono::seconds(10));
  // Stops the thread, and waits one second at most for its end.
  ~Heartbeat();

  // Returns the ranks of all other processes.
  std::vector<int> others() const;
  // Call this before each exchange. find_cause() compares the counts of all processes to find the
  // one that is behind.
  void count_exchange();
  int64_t exchanges() const;
  // Call it with true before this process writes a checkpoint, and with false after. Any thread may
  // call it.
  void mark_saving(bool is_saving);

  // Writes `loss` to the store, unless a loss is there. The process that serves the store then
  // waits at most three seconds, until all living processes have read it.
  void give_up(const Loss& loss) noexcept;
  // Finds out why an exchange has failed: which process has given up, is silent or is behind.
  // Writes the cause to the store, so that all processes name the same one. `seen`, the error
  // message of the exchange here, is a part of the cause. Takes up to four seconds, or ten with a
  // slow store.
  Loss find_cause(const std::string& seen);
  // Waits until `done` returns true, and then returns nothing. Returns a Loss in these cases:
  //   a process has given up
  //   a rank of `awaited` gives no sign of life for `patience` (after a signal: for five seconds)
  //   one call of `done` throws, or takes longer than `patience`
  // Other threads call `done`, again and again. It may ask the store. It may still run after wait()
  // has returned, so it must own all that it uses.
  std::optional<Loss> wait(const std::vector<int>& awaited, const std::function<bool()>& done,
                           std::chrono::milliseconds patience);
  // Calls `question` as wait() calls `done`, once. Returns its answer; nothing if it throws, or
  // takes longer than two seconds.
  static std::optional<bool> ask(const std::function<bool()>& question);
  // Call this at the end of a run that went well. It stops the signs of life. The process that
  // serves the store waits until the others have left, at most three seconds.
  void leave();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may hang in the store
};

}  // namespace lmtrain
