// Kills a child at a chosen system call: what a power cut between any two calls leaves of the
// files.
#pragma once

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace lmtrain::testing {

enum class ChildEnd { kKilled, kDone, kFailed, kUntraceable };

// Does `work` in a child that is killed at its moment `moment`, from 0: the moments are before and
// after each of its system calls. Returns kDone when it had ended by then.
inline ChildEnd killed_at_call(int moment, const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(77);
    ::raise(SIGSTOP);
    try {
      work();
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  for (int stop = 0;; ++stop) {
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status)) {
      const int code = WEXITSTATUS(status);
      return code == 0 ? ChildEnd::kDone : code == 77 ? ChildEnd::kUntraceable : ChildEnd::kFailed;
    }
    if (!WIFSTOPPED(status)) return ChildEnd::kFailed;
    // The first stop is its own SIGSTOP.
    if (stop == moment + 1) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return ChildEnd::kKilled;
    }
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  }
}

}  // namespace lmtrain::testing
