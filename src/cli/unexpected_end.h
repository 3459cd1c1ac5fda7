// Handles ends of the program that no code of ours chose: an exception that nobody catches, and a
// library that calls exit(), as libgomp does where a thread is refused. Either would hang or abort;
// here it becomes a message and an exit code of the contract.
//
// Exceptions that nobody catches are handled from before main() on, exit() between the two calls.
#pragma once

namespace lmtrain {

// Makes exit() an error from now on: the program ends as one that is out of memory or threads.
void report_unexpected_exits();
// Makes exit() the expected end again; main() calls it before it returns.
void expect_exit();

}  // namespace lmtrain
