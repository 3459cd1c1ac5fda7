// A refused system call may succeed when it is tried again: network file systems refuse for a
// moment (ESTALE, EIO), a busy machine runs out of descriptors (EMFILE, ENFILE), a signal
// interrupts (EINTR). Use one Retry for each call.
//
//   Retry retry;
//   while ((fd = ::open(...)) < 0 && retry.again(errno)) {
//   }
#pragma once

#include <cerrno>
#include <chrono>
#include <thread>

namespace lmtrain {

class Retry {
 public:
  // Returns true when the call is to be tried again: `error` (errno) is one of the codes above and
  // has not come too often. It waits before it returns, 0.3 s over all tries, except for EINTR.
  // errno still holds `error` afterwards.
  bool again(int error) {
    constexpr int kMostWaits = 5;
    if (error == EINTR) return interrupted(error);
    if (error != ESTALE && error != EIO && error != EMFILE && error != ENFILE) return false;
    if (++waits_ > kMostWaits) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5 << waits_));
    errno = error;
    return true;
  }

  // Does the same for a call that changes files. Such a call is tried again only after a signal:
  // when it was refused for another reason, it may have done a part of its work.
  bool interrupted(int error) {
    constexpr int kMostInterruptions = 1000;
    return error == EINTR && ++interruptions_ <= kMostInterruptions;
  }

 private:
  int interruptions_ = 0;
  int waits_ = 0;
};

// Makes a call that changes files, which returns 0, or -1 with errno; makes it again after each
// signal. Returns what the call returns.
template <class Call>
int uninterrupted(const Call& call) {
  Retry retry;
  for (;;) {
    const int result = call();
    if (result == 0 || !retry.interrupted(errno)) return result;
  }
}

}  // namespace lmtrain
