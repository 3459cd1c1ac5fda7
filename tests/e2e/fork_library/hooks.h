// What a library that contains fork_server.cpp may do around main of each fork; the fault library
// does, the fork library does nothing.
#pragma once

extern "C" {
// In the new process, with its environment, folder, output and error.
__attribute__((weak)) void lmtrain_before_main();
// `code` is what main has returned. It may end the process.
__attribute__((weak)) void lmtrain_after_main(int code);
}
