// Signals ask a run to stop; the loop polls. The first SIGTERM, SIGINT or SIGUSR1 is only noted. A
// second one ends the process at once with 128+n, nothing saved; the same signal again within 0.1 s
// is the first one delivered twice. SIGXFSZ and SIGPIPE are ignored, so that a file size limit and
// a pipe that nobody reads are errors of write().
#pragma once

namespace lmtrain {

// Call once, before any thread starts.
void install_signal_handlers();
// The number of the signal that asked to stop, or 0.
int stop_signal();

}  // namespace lmtrain
