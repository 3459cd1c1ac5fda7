// Trying a refused system call again. Network file systems refuse for a moment (ESTALE, EIO), a
// busy machine runs out of descriptors (EMFILE, ENFILE), a signal interrupts (EINTR).
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
  // True when `error` may pass and has not been met too often; it has waited then, 0.3 s over all
  // tries. `error` is still in errno afterwards.
  bool again(int error) {
    constexpr int kMostInterruptions = 1000;
    constexpr int kMostWaits = 5;
    if (error == EINTR) return ++interruptions_ <= kMostInterruptions;
    if (error != ESTALE && error != EIO && error != EMFILE && error != ENFILE) return false;
    if (++waits_ > kMostWaits) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5 << waits_));
    errno = error;
    return true;
  }

 private:
  int interruptions_ = 0;
  int waits_ = 0;
};

}  // namespace lmtrain
