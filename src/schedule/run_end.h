// A RunEnd tells how a run ended without an error: with which exit code, and why.
#pragma once

#include <string>

#include "schedule/due.h"

namespace lmtrain {

struct RunEnd {
  bool done = false;
  std::string reason;  // "done", "early stop", "signal 15", "max_time"
  int exit_code = 0;
};

// `is_evaluated`: the weights at the end have been evaluated. `signal` is the number of the signal
// that has asked to stop, or 0; one that comes when all is done changes nothing.
RunEnd run_end(Stop why, bool is_evaluated, int signal);

}  // namespace lmtrain
