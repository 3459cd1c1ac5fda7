#include "base/stop.h"

#include <gtest/gtest.h>

#include <csignal>

#include "base/support.h"

namespace lmtrain {
namespace {

using testing::exit_code_of;

// As in a process that is not started by nohup, which these tests may be.
void install_handlers_for_all() {
  std::signal(SIGHUP, SIG_DFL);
  install_signal_handlers();
}

TEST(Signal, FirstIsOnlyNoted) {
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) {
    EXPECT_EQ(exit_code_of([&] {
                install_handlers_for_all();
                if (stop_signal() != 0) return 1;
                std::raise(number);
                return stop_signal() == number ? 0 : 2;
              }),
              0);
  }
}

TEST(Signal, SecondEndsAtOnce) {
  EXPECT_EQ(exit_code_of([] {
              install_signal_handlers();
              std::raise(SIGUSR1);
              std::raise(SIGTERM);
              return 0;
            }),
            128 + SIGTERM);
}

TEST(Signal, TheSameOneTwiceAtOnceIsOne) {
  EXPECT_EQ(exit_code_of([] {
              install_signal_handlers();
              for (int i = 0; i < 3; ++i) std::raise(SIGTERM);
              return stop_signal() == SIGTERM ? 0 : 1;
            }),
            0);
  EXPECT_EQ(exit_code_of([] {
              install_signal_handlers();
              std::raise(SIGTERM);
              ::usleep(150'000);
              std::raise(SIGTERM);
              return 0;
            }),
            128 + SIGTERM);
}

// Both the shell of a terminal that closes and the system send it, at different times.
TEST(Signal, AnyNumberOfHangUpsIsOne) {
  EXPECT_EQ(exit_code_of([] {
              install_handlers_for_all();
              std::raise(SIGHUP);
              ::usleep(150'000);
              std::raise(SIGHUP);
              return stop_signal() == SIGHUP ? 0 : 1;
            }),
            0);
  EXPECT_EQ(exit_code_of([] {
              install_handlers_for_all();
              std::raise(SIGHUP);
              std::raise(SIGINT);
              return 0;
            }),
            128 + SIGINT);
}

TEST(Signal, AnIgnoredHangUpStaysIgnored) {
  EXPECT_EQ(exit_code_of([] {
              std::signal(SIGHUP, SIG_IGN);
              install_signal_handlers();
              std::raise(SIGHUP);
              return stop_signal();
            }),
            0);
}

TEST(Signal, FileSizeLimitAndBrokenPipeDoNotKill) {
  EXPECT_EQ(exit_code_of([] {
              install_signal_handlers();
              std::raise(SIGXFSZ);
              std::raise(SIGPIPE);
              return stop_signal();
            }),
            0);
}

}  // namespace

}  // namespace lmtrain
