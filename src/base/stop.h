// A signal asks the process to stop, and StopRequested is how work that has nothing to save stops.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/text.h"

namespace lmtrain {

// Installs the signal handlers. The first SIGTERM, SIGINT, SIGUSR1 or SIGHUP is only noted:
// work that can stop calls stop_signal() from time to time. A second signal ends the process at
// once with exit code 128+n, and nothing is saved. Two signals do not count as a second one: the
// same signal within 0.1 s, and SIGHUP. Where SIGHUP is ignored (nohup), it stays so. System calls
// that a signal interrupts go on (SA_RESTART). SIGXFSZ and SIGPIPE are ignored, so that a file size
// limit and a pipe that nobody reads are errors of write().
//
// Call once, before any thread starts.
void install_signal_handlers();
// Returns the number of the signal that asked to stop, or 0.
int stop_signal();

// StopRequested stops work that has nothing to save when a signal has come: data preparation, the
// planning of batches, `lmtrain eval`, an export. The planning of batches also throws it when
// train.max_time is over. It is neither an Error nor a std::exception, so handlers of errors let it
// pass. The command then ends with this exit code and message.
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

// Work that may take minutes calls a Poll now and then. The Poll stops the work by throwing.
using Poll = std::function<void()>;
// Calls `poll` once every 2^20 items; `item` counts from 0.
inline void poll_at(size_t item, const Poll& poll) {
  constexpr size_t kEvery = size_t{1} << 20;
  if ((item + 1) % kEvery == 0) poll();
}

}  // namespace lmtrain
