// Signs of life between the processes of a run, and why one of them has ended. They go through the
// store where the processes met, beside the exchanges of training.
//
// A thread gives a sign of life twice a second and looks whether some process has given up. A
// process whose main thread does not end although another has given up is ended by that thread
// after ten seconds. Waiting for the store is bounded everywhere: the process that serves it may
// be the one that hangs.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace c10d {
class Store;
}

namespace lmtrain {

// Why a run of several processes ends before its end.
struct Loss {
  int exit_code = 5;
  std::string cause;
};

class Watch {
 public:
  // Who is watched, and by whom.
  struct Group {
    int rank = 0;
    std::vector<std::string> names;  // by rank, for messages
    // The rank that serves the store; none: torchrun's agent does.
    std::optional<int> server;
  };
  // Ends a process whose main thread does not end: by a message and _exit, except in tests.
  using EndProcess = std::function<void(const Loss&)>;

  Watch(c10::intrusive_ptr<c10d::Store> store, Group group, EndProcess end_process);
  ~Watch();

  // Counts the exchanges that this process has begun, so that the one which is behind is found.
  void count_exchange();
  int64_t exchanges() const;

  // Puts down that this process ends, unless another has before; a process that serves the store
  // stays until the others have read it, at most three seconds.
  void give_up(const Loss& loss) noexcept;
  // Why an exchange has failed; `seen` is how that showed here. Takes up to about five seconds.
  Loss find_cause(const std::string& seen);
  // Returns once `done`, which may ask the store, is true. Nothing else limits the waiting than
  // signs of life: a Loss where one of `awaited` has given none for `patience`, or has given up.
  std::optional<Loss> wait(const std::vector<int>& awaited, const std::function<bool()>& done,
                           std::chrono::milliseconds patience);
  // The end of a run that went well; the process that serves the store leaves last.
  void leave();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may hang in the store
};

}  // namespace lmtrain
