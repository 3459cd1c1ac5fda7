// Ends of the program that no code of ours chose: an exception that nobody catches, and a library
// that calls exit(), as libgomp does where a thread is refused. Either would hang or abort; with
// these in force it becomes a message and an exit code of the contract.
#pragma once

namespace lmtrain {

// In force from now on. An uncaught exception is told from before main() on.
void report_unexpected_exits();
// main() is about to return: an end as it should be.
void expect_exit();

}  // namespace lmtrain
