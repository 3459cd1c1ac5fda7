#include "base/threads.h"

#include <pthread.h>

#include <atomic>

#include "base/limits.h"
#include "base/support.h"

namespace lmtrain {
namespace {

using testing::exit_code_of;
using testing::limit_addresses;

constexpr uint64_t kLessThanAStack = 1 << 20;

// Makes stacks larger than those that the C library keeps of threads that have ended, so that a new
// thread needs new addresses.
bool use_large_stacks() {
  constexpr size_t kBytes = size_t{1} << 28;
  pthread_attr_t attributes;
  return ::pthread_attr_init(&attributes) == 0 &&
         ::pthread_attr_setstacksize(&attributes, kBytes) == 0 &&
         ::pthread_setattr_default_np(&attributes) == 0;
}

// 0 when `action` throws an Error of memory that names the limit and the setting.
template <class Action>
int code_of_refusal(const Action& action) {
  return exit_code_of([&] {
    if (!use_large_stacks() || !limit_addresses(kLessThanAStack)) return 1;
    try {
      action();
    } catch (const Error& error) {
      const std::string message = error.what();
      const bool names_both = message.find("ulimit -v ") != std::string::npos &&
                              message.find("lower threads") != std::string::npos;
      return error.kind() == ErrorKind::kMemory && names_both ? 0 : 2;
    }
    return 3;
  });
}

TEST(Threads, OneThatIsStartedWorks) {
  std::atomic<bool> done = false;
  start_thread([&] { done = true; }).join();
  EXPECT_TRUE(done);
}

TEST(Threads, ARefusedOneIsAnErrorThatNamesTheLimit) {
  EXPECT_EQ(code_of_refusal([] { start_thread([] {}).join(); }), 0);
}

TEST(Threads, ThoseThatCanBeHadAreAsked) {
  require_threads(0);
  require_threads(-1);
  require_threads(20);
  EXPECT_EQ(code_of_refusal([] { require_threads(3); }), 0);
}

}  // namespace
}  // namespace lmtrain
