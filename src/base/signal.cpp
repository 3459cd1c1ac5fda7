#include "base/signal.h"

#include <unistd.h>

#include <csignal>
#include <initializer_list>

namespace lmtrain {
namespace {

volatile std::sig_atomic_t g_stop_signal = 0;

extern "C" void on_stop_signal(int number) {
  if (g_stop_signal != 0) _exit(128 + number);
  g_stop_signal = number;
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) sigaction(number, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

int stop_signal() { return g_stop_signal; }

}  // namespace lmtrain
