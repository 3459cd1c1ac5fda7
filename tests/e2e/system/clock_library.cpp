// A library for LD_PRELOAD under which the clock of the day jumps: every few readings it is years
// earlier or later, as where a machine has lost its time and gets it back. Clocks that cannot be
// set (CLOCK_MONOTONIC) stay as they are.
//
//   LMTRAIN_CLOCK_JUMP   seconds of a jump; without it nothing jumps
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

#include <atomic>
#include <cstdlib>

namespace {

time_t shift() {
  static const char* const jump = std::getenv("LMTRAIN_CLOCK_JUMP");
  if (jump == nullptr) return 0;
  static std::atomic<long> readings{0};
  return (readings++ / 3 % 3 - 1) * static_cast<time_t>(std::atol(jump));
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// NOLINTBEGIN: the C library's names and signatures.
extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static const auto real = next<int (*)(clockid_t, timespec*)>("clock_gettime");
  const int result = real(clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    now->tv_sec += shift();
  return result;
}

int gettimeofday(timeval* now, void* zone) noexcept {
  static const auto real = next<int (*)(timeval*, void*)>("gettimeofday");
  const int result = real(now, zone);
  if (result == 0) now->tv_sec += shift();
  return result;
}

time_t time(time_t* out) noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

}  // extern "C"
// NOLINTEND
