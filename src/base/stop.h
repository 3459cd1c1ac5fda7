// Stopping where a signal came and there is nothing to save: while data is prepared, during an
// evaluation of its own.
#pragma once

#include "base/signal.h"

namespace lmtrain {

// The command turns it into the exit code 128 + signal.
struct StopRequested {
  int signal = 0;
};

// Throws StopRequested when a signal has asked to stop.
inline void throw_if_stopped() {
  if (const int number = stop_signal(); number != 0) throw StopRequested{number};
}

}  // namespace lmtrain
