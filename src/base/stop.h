// StopRequested stops work that has nothing to save: data preparation, the planning of batches,
// `lmtrain eval`. It is thrown when a signal has come or the time is over.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/signal.h"
#include "base/text.h"

namespace lmtrain {

// StopRequested is neither an Error nor a std::exception, so handlers of errors let it pass. The
// command then ends with this exit code and message.
struct StopRequested {
  int signal = 0;  // 0: train.max_time is over

  int exit_code() const { return signal == 0 ? kExitMaxTime : 128 + signal; }
  std::string message() const {
    if (signal != 0) return str("stopped by signal ", signal);
    return "train.max_time was over before the batches were planned; raise it";
  }
};

// Throws StopRequested when a signal has asked to stop.
inline void throw_if_stopped() {
  if (const int number = stop_signal(); number != 0) throw StopRequested{number};
}

// A Poll is called now and then by work that may take minutes, and stops that work by throwing.
using Poll = std::function<void()>;
// Calls `poll` once every 2^20 items; `item` counts from 0.
inline void poll_at(size_t item, const Poll& poll) {
  constexpr size_t kEvery = size_t{1} << 20;
  if ((item + 1) % kEvery == 0) poll();
}

}  // namespace lmtrain
