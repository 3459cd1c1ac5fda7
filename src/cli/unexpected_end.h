// Handles two unexpected ends of the program: an exception that nobody catches, and a library that
// calls exit(), as libgomp does if it cannot start a thread. Instead of a hang or an abort, the
// program ends with a message and an exit code of ErrorKind.
//
// Uncaught exceptions are handled from before main() on, exit() only between the two calls.
#pragma once

namespace lmtrain {

// From now on exit() is an error: the program ends as if out of memory or threads.
void report_unexpected_exits();
// From now on exit() is the expected end. main() calls it before it returns.
void expect_exit();

}  // namespace lmtrain
