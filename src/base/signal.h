// A signal asks the process to stop. The first SIGTERM, SIGINT, SIGUSR1 or SIGHUP is only noted:
// work that can stop calls stop_signal() from time to time. A second one ends the process at once
// with exit code 128+n, and nothing is saved; the same signal again within 0.1 s counts as the
// first one delivered twice, and a second SIGHUP never counts. Where SIGHUP is ignored (nohup), it
// stays so. System calls that a signal interrupts go on (SA_RESTART). SIGXFSZ and SIGPIPE
// are ignored, so that a file size limit and a pipe that nobody reads are errors of write().
#pragma once

namespace lmtrain {

// Call once, before any thread starts.
void install_signal_handlers();
// Returns the number of the signal that asked to stop, or 0.
int stop_signal();

}  // namespace lmtrain
