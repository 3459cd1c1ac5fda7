#include "base/stop.h"

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <initializer_list>

namespace lmtrain {
namespace {

// One request to stop may come twice: timeout(1) and job managers signal the process and then its
// group.
constexpr int64_t kSameRequestNanoseconds = 100'000'000;

volatile std::sig_atomic_t g_stop_signal = 0;
std::atomic<int64_t> g_first_at = 0;
static_assert(std::atomic<int64_t>::is_always_lock_free);

int64_t monotonic_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

extern "C" void on_stop_signal(int number) {
  const int64_t now = monotonic_nanoseconds();
  if (g_stop_signal == 0) {
    g_first_at = now;
    g_stop_signal = number;
  } else if (number == SIGHUP) {
    // A terminal that closes sends it more than once: its shell does, and the system.
  } else if (number != g_stop_signal || now - g_first_at > kSameRequestNanoseconds) {
    _exit(128 + number);
  }
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) sigaction(number, &action, nullptr);
  struct sigaction before {};
  sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // nohup(1) ignores it
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

int stop_signal() { return g_stop_signal; }

}  // namespace lmtrain
