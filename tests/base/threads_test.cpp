#include "base/threads.h"

#include <atomic>

#include "base/limits.h"
#include "base/support.h"

namespace lmtrain {
namespace {

using testing::exit_code_of;
using testing::limit_addresses;

constexpr uint64_t kLessThanAStack = 1 << 20;

// 0 when `action` throws an Error of memory that names the limit and the setting.
template <class Action>
int code_of_refusal(const Action& action) {
  return exit_code_of([&] {
    if (!limit_addresses(kLessThanAStack)) return 1;
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
